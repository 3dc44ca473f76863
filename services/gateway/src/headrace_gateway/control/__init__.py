"""Requests that change or describe the cluster: dispatch, group memberships, defaults of topics, diagnostics."""
