// Command helm is the plugin for Helm charts: deploy items of type landscaper.gardener.cloud/helm.
package main

import "github.com/pergola-deploy/pergola/plugins/helm/plugin"

// version is set when the plugin is built for a release.
var version = "dev"

func main() { plugin.Serve(version) }
