"""The console: pages for people who answer for a crew, served beside the HTTP service under ``/console``."""
