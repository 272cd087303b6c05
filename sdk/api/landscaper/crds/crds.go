// Package crds holds the CustomResourceDefinitions of landscaper.gardener.cloud/v1alpha1, as controller-gen writes
// them from the types in v1alpha1.
package crds

import (
	"embed"
	"fmt"
	"io/fs"
)

//go:embed *.yaml
var files embed.FS

// Manifests returns the definitions as YAML documents, in order of their file names. Each begins with a document
// separator.
func Manifests() ([][]byte, error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list embedded CustomResourceDefinitions: %w", err)
	}
	manifests := make([][]byte, 0, len(names))
	for _, name := range names {
		manifest, err := files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read embedded CustomResourceDefinition: %w", err)
		}
		manifests = append(manifests, manifest)
	}
	return manifests, nil
}
