# syntax=docker/dockerfile:1
# The image of the service and of the worker; see docs/how-to/deploy.md.
ARG PYTHON=python:3.11.14-slim-bookworm

FROM ${PYTHON} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/lastro
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN /opt/lastro/bin/pip install . && /opt/lastro/bin/lastro --version

FROM ${PYTHON}
# git reads repositories, and ssh fetches some of them.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git openssh-client \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --system --uid 10001 --home-dir /var/lib/lastro --create-home lastro
COPY --from=build /opt/lastro /opt/lastro
ENV PATH=/opt/lastro/bin:$PATH LASTRO_HOME=/var/lib/lastro
WORKDIR /var/lib/lastro
USER lastro
VOLUME /var/lib/lastro
EXPOSE 8080
# The process answers; /healthz looks at nothing else.
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8080/healthz', timeout=4)"]
ENTRYPOINT ["lastro"]
CMD ["serve", "--host", "0.0.0.0"]
