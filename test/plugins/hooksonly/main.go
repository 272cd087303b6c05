// Command hooksonly is a plugin without a deployer for tests of hooks. Its hooks of all types, for the deploy items of the deployers mock
// and tracer, record each call in the file that its first argument names, in none without one, and have no opinion. While there is a
// file of that name with ".down" behind it, the plugin does not start.
package main

import (
	"fmt"
	"os"

	"github.com/pergola-deploy/pergola/sdk"
	mockv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/mock/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/test/plugins/tracer/trace"
)

const name = "hooksonly"

func main() {
	var file trace.File
	if len(os.Args) > 1 {
		file = trace.File(os.Args[1])
		if _, err := os.Stat(os.Args[1] + ".down"); err == nil { //nolint:gosec // the tests say where their files are
			fmt.Fprintln(os.Stderr, "the file "+os.Args[1]+".down keeps the plugin from starting")
			os.Exit(1)
		}
	}
	hooks := hook.Hooks{}.RegisterHook(file.Hook(name), hook.Types()...)
	sdk.ServeHooks(hooks, sdk.Name(name), sdk.Version("v1"), sdk.HookedTypes(mockv1alpha1.Type, "example.org/trace"))
}
