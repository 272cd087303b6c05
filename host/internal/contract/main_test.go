package contract_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets a property be tried for longer than usual, unless the command line says otherwise: it takes many steps
// until an item has had several jobs.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{"rapid.steps": "100", "rapid.checks": "400"} {
		if err := flag.Set(name, value); err != nil {
			panic(err) //nolint:forbidigo // the flag is there
		}
	}
	os.Exit(m.Run())
}
