// Command container is the plugin that runs containers: deploy items of type landscaper.gardener.cloud/container.
package main

import "github.com/pergola-deploy/pergola/plugins/container/plugin"

// version is set when the plugin is built for a release.
var version = "dev"

func main() { plugin.Serve(version) }
