//go:build !unix

package sqlitestore

import "os"

// fileNumber cannot tell a file from its copies here.
func fileNumber(os.FileInfo) string { return "" }
