// Command pictures draws the pictures of the documents. The times in them are
// those of the code's defaults.
//
//	go generate ./internal/cmd/pictures
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/cronlease/cronlease/lease"
)

//go:generate go run . ../../../docs/pictures

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: pictures FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

func write(folder string) error {
	pictures, err := draw()
	if err != nil {
		return err
	}
	for name, picture := range pictures {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(picture), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// draw returns the pictures by their file names.
func draw() (map[string]string, error) {
	timing, err := lease.Timing{}.Complete()
	if err != nil {
		return nil, err
	}
	return map[string]string{
		"overview.svg": overview(timing),
		"takeover.svg": takeover(timing),
	}, nil
}
