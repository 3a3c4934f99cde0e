//go:build !linux

package execjob

import "errors"

var errLinux = errors.New("needs Linux")

// CheckUser fails.
func CheckUser(string) error { return errLinux }

// CheckLimits fails.
func CheckLimits() error { return errLinux }

// Limit fails.
func Limit([]string) error { return errLinux }
