//go:build !linux

package sqlitestore

import "errors"

// networkFS cannot tell here.
func networkFS(string) (string, bool) { return "", false }

// freeSpace is not known on these systems.
func freeSpace(string) (int64, error) { return 0, errors.ErrUnsupported }
