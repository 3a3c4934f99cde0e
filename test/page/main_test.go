package page_test

import (
	"os"
	"testing"

	"github.com/cronlease/cronlease/internal/workertest"
)

func TestMain(m *testing.M) { os.Exit(workertest.Main(m)) }
