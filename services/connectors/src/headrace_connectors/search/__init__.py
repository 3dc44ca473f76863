"""OpenSearch and Elasticsearch, as their source and sink use them: settings, requests, failures."""
