"""The routes, one file per family; ``app.create_app`` puts them together."""
