"""Shared by reports: one HTML page, one SARIF log, for incidents, audits and scans."""
