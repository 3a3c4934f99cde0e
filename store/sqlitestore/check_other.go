//go:build !linux

package sqlitestore

// networkFS cannot tell here.
func networkFS(string) (string, bool) { return "", false }
