"""Chassis of a service: process, lifecycle, logs, metrics, health, TLS and gRPC, for all services alike."""
