//go:build !unix

package plainfile

// nonblock is 0 where a path names no pipe that open waits for.
const nonblock = 0
