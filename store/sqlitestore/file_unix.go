//go:build unix

package sqlitestore

import (
	"fmt"
	"os"
	"syscall"
)

// fileNumber tells a file from its copies.
func fileNumber(file os.FileInfo) string {
	if stat, ok := file.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprintf("/%d:%d", stat.Dev, stat.Ino)
	}
	return ""
}
