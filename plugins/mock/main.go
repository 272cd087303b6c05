// Command mock is the mock deployer: it deploys nothing and ends jobs as their provider configuration says. It is for
// tests of everything around deployers, and for a look at the phases of a DeployItem.
package main

import "github.com/pergola-deploy/pergola/plugins/mock/plugin"

// version is set by the linker.
var version = "0.0.0-dev"

func main() { plugin.Serve(version) }
