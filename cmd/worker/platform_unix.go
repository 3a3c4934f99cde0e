//go:build unix

package main

const isSupported = true
