//go:build !unix

package plainfile

// nonblock is 0 where a path names no pipe that open waits for.
const nonblock = 0

// Exposed is false: the permissions of files here are not those of Unix.
func Exposed(string) bool { return false }
