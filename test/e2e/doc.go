// Package e2e tests and measures real processes on real servers: workers, writers that are stopped in the middle of their
// work, and processes that lock. The shortest of these tests is lease_test.go in the root of the repository.
package e2e
