// Package input collects the input of a container: its imports, its Target, the files of its blueprint, its component
// descriptors, and the credentials for its image.
package input

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/pergola-deploy/pergola/plugins/container/content"
	"github.com/pergola-deploy/pergola/plugins/container/internal/components"
	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// ReasonInvalid is the reason of the error about unusable input for the container.
const ReasonInvalid = "InputInvalid"

// Source resolves the references to input.
type Source struct {
	// Resolver resolves references before Components does; nil for none.
	Resolver content.Resolver
	// Components returns the finder in the component model. It is called for references alone.
	Components func() (*components.Finder, error)
}

// descriptorList is the container's file of component descriptors.
type descriptorList struct {
	Metadata struct {
		Version string `json:"schemaVersion"`
	} `json:"meta"`
	Components []json.RawMessage `json:"components"`
}

// Files returns the files of the init container for the shared directory, by their paths in it. blueprint has the
// files of an inline blueprint.
func (s *Source) Files(
	ctx context.Context, req *sdk.Request, c *v1alpha1.ProviderConfiguration, blueprint map[string][]byte,
) (map[string][]byte, error) {
	files := map[string][]byte{}
	add := func(at string, content []byte) { files[strings.TrimPrefix(at, layout.Shared+"/")] = content }
	if len(c.ImportValues) > 0 {
		add(layout.Imports, c.ImportValues)
	}
	if req.Target != nil {
		target, err := targetFile(req.DeployItem.Namespace, req.Target)
		if err != nil {
			return nil, err
		}
		add(layout.Target, target)
	}
	resolved, err := s.resolve(ctx, req, c)
	if err != nil {
		return nil, fmt.Errorf("resolve references of spec.config: %w", err)
	}
	if blueprintReference(c) != nil {
		blueprint = resolved.Files
		if err := checkNames(blueprint); err != nil {
			return nil, err
		}
	}
	for name, content := range blueprint {
		add(path.Join(layout.Content, name), content)
	}
	if len(resolved.ComponentDescriptors) > 0 {
		list := descriptorList{Components: resolved.ComponentDescriptors}
		list.Metadata.Version = "v2"
		document, err := json.Marshal(list)
		if err != nil {
			return nil, sdk.ConfigurationError(ReasonInvalid, "spec.config: componentDescriptor: %w", err)
		}
		add(layout.ComponentDescriptor, document)
	}
	return files, nil
}

// blueprintReference returns the reference to a blueprint; nil for none.
func blueprintReference(c *v1alpha1.ProviderConfiguration) *v1alpha1.BlueprintReference {
	if c.Blueprint == nil {
		return nil
	}
	return c.Blueprint.Reference
}

// resolve returns the files and component descriptors of references, and inline descriptors. The Resolver is asked
// for references first.
func (s *Source) resolve(
	ctx context.Context, req *sdk.Request, c *v1alpha1.ProviderConfiguration,
) (*content.Resolved, error) {
	blueprint, descriptor := blueprintReference(c), c.ComponentDescriptor
	descriptorAway := descriptor != nil && descriptor.Reference != nil
	if s.Resolver != nil && (blueprint != nil || descriptorAway) {
		found, err := s.Resolver.Resolve(ctx, &content.ResolveRequest{
			Blueprint: blueprint, ComponentDescriptor: descriptor, DeployItem: req.DeployItem,
			Context: req.Context, Credentials: req.Credentials, Log: req.Log,
		})
		if err != nil {
			return nil, err
		}
		if found != nil {
			if !descriptorAway {
				found.ComponentDescriptors = nil // the provider configuration has them
				if descriptor != nil {
					found.ComponentDescriptors = []json.RawMessage{descriptor.Inline}
				}
			}
			return found, nil
		}
	}
	return s.find(ctx, req, c)
}

// find resolves the references of the provider configuration in the component model.
func (s *Source) find(
	ctx context.Context, req *sdk.Request, c *v1alpha1.ProviderConfiguration,
) (*content.Resolved, error) {
	blueprint := blueprintReference(c)
	if blueprint == nil && c.ComponentDescriptor == nil {
		return &content.Resolved{}, nil
	}
	finder, err := s.Components()
	if err != nil {
		return nil, err
	}
	registries, err := registryCredentials(ctx, req, c)
	if err != nil {
		return nil, err
	}
	credentials := &sdk.Credentials{Registries: registries}
	if found := req.Credentials; found != nil {
		credentials.ChartRepositories = found.ChartRepositories
	}
	return finder.Find(ctx, &components.Request{
		Blueprint: blueprint, Descriptor: c.ComponentDescriptor, Context: req.Context,
		OCMConfig: req.OCMConfig, Credentials: credentials, Warning: req.Warning,
	})
}

// checkNames refuses names of files outside the directory of the blueprint, in the place of other files: they may
// come from a repository.
func checkNames(files map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !fs.ValidPath(name) || name == "." {
			return sdk.ConfigurationError(ReasonInvalid, "spec.config: blueprint.ref: "+
				"the resolver has found a file %.200q, expected a path below the blueprint, such as %q; "+
				"correct the blueprint, or the resolver", name, "charts/shop.tgz")
		}
	}
	return nil
}

// targetFile returns a Target with its content, in the form of Landscaper's type ResolvedTarget.
func targetFile(namespace string, t *sdk.Target) ([]byte, error) {
	file := struct {
		Target  landscaper.Target `json:"target"`
		Content string            `json:"content"`
	}{Content: string(t.Content)}
	file.Target.APIVersion, file.Target.Kind = landscaper.GroupVersion.String(), "Target"
	file.Target.Namespace, file.Target.Name = namespace, t.Name
	file.Target.Labels, file.Target.Annotations = t.Labels, t.Annotations
	file.Target.Spec.Type = t.Type
	document, err := json.Marshal(file)
	if err != nil {
		return nil, fmt.Errorf("write Target %q for the container: %w", t.Name, err)
	}
	return document, nil
}
