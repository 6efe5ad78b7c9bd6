#!/bin/sh
# Makes the three roles and the database, on a server that has none of them; run by a superuser.
# The passwords come from the environment and stand in no argument.
set -eu
: "${DB_OWNER_PASSWORD:?must be set}" "${DB_USER_PASSWORD:?must be set}"
export DB_OWNER_PASSWORD DB_USER_PASSWORD
psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 \
    --username="${POSTGRES_USER:-postgres}" --dbname=postgres <<'SQL'
\getenv owner_password DB_OWNER_PASSWORD
\getenv user_password DB_USER_PASSWORD
CREATE ROLE lastro_owner LOGIN PASSWORD :'owner_password';
CREATE ROLE lastro_app NOLOGIN;
CREATE ROLE lastro_user LOGIN PASSWORD :'user_password';
GRANT lastro_app TO lastro_owner;
GRANT lastro_app TO lastro_user;
CREATE DATABASE lastro OWNER lastro_owner ENCODING 'UTF8' TEMPLATE template0;
\connect lastro
CREATE EXTENSION IF NOT EXISTS vector;
SQL
