// Command all is each of Pergola's plugins, by the name of its file. Images have it in the place of four programs: most
// code of the plugins is the same, and processes of one program share its memory.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	container "github.com/pergola-deploy/pergola/plugins/container/plugin"
	helm "github.com/pergola-deploy/pergola/plugins/helm/plugin"
	manifest "github.com/pergola-deploy/pergola/plugins/manifest/plugin"
	mock "github.com/pergola-deploy/pergola/plugins/mock/plugin"
)

// version is set by the build of a release.
var version = "dev"

func main() {
	switch name := filepath.Base(os.Args[0]); name {
	case "container":
		container.Serve(version)
	case "helm", "pergola-helm-worker": // its processes of Helm
		helm.Serve(version)
	case "manifest":
		manifest.Serve(version)
	case "mock":
		mock.Serve(version)
	default:
		fmt.Fprintf(os.Stderr, "expected to be named container, helm, manifest or mock, but found %q\n", name)
		os.Exit(2)
	}
}
