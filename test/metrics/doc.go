// Package metrics tests the alert rules and the dashboard of deploy/ with a real Prometheus.
package metrics
