//go:build !unix

package main

// isSupported is false where exec jobs cannot be stopped as a whole, and no signal
// asks for a clean stop. The program still builds, so that the module does.
const isSupported = false
