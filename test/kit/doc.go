// Package kit tests the files under deploy: as far as that goes without Docker, Kubernetes and systemd, it does what they do
// with them.
package kit
