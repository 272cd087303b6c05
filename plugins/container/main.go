// Command container is the plugin with the container deployer, for items of type landscaper.gardener.cloud/container.
package main

import "github.com/pergola-deploy/pergola/plugins/container/plugin"

// version is set by the build of a release.
var version = "dev"

func main() { plugin.Serve(version) }
