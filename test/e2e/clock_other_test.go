//go:build !unix

package e2e

import "errors"

// monotonic fails: there is no clock here that all processes share, and the tests that need one are only built.
func monotonic() int64 { panic(errors.ErrUnsupported) }
