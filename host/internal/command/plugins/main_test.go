package plugins

import (
	"testing"

	"github.com/pergola-deploy/pergola/host/internal/command/commandtest"
	"github.com/pergola-deploy/pergola/sdk"
)

var pergola = commandtest.Of(NewCommand)

// The test binary is also the plugin of these tests.
func TestMain(m *testing.M) {
	commandtest.Main(m, map[string]func(){
		"reader": func() { sdk.Serve(reader{}, sdk.Name("reader"), sdk.Types(readerType)) },
	}, func(tests interface{ Run() int }) int { return tests.Run() })
}
