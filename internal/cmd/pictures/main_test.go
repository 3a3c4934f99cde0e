package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The pictures in docs are what this program draws.
func TestPicturesAreUpToDate(t *testing.T) {
	t.Parallel()
	pictures, err := draw()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range pictures {
		got, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "pictures", name))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("docs/pictures/%s is out of date: go generate ./internal/cmd/pictures", name)
		}
		for d := xml.NewDecoder(strings.NewReader(want)); ; {
			_, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s is not XML: %v", name, err)
			}
		}
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	if err := write(t.TempDir()); err != nil {
		t.Error(err)
	}
	if err := write(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("wrote into a folder that is not there")
	}
}
