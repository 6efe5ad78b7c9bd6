"""The role that owns nothing and that every query of the application runs as."""

APP_ROLE = "lastro_app"
