"""The description of the service for OpenAPI."""
