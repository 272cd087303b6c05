// Command manifest is the plugin for plain Kubernetes manifests: it deploys items of type
// landscaper.gardener.cloud/kubernetes-manifest.
package main

import "github.com/pergola-deploy/pergola/plugins/manifest/plugin"

// version is set when the plugin is built for a release.
var version = "dev"

func main() { plugin.Serve(version) }
