package main

import "github.com/cronlease/cronlease/internal/jsontime"

// stamp is an instant as commands print it.
type stamp = jsontime.Instant
