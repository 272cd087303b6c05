package deployer

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
	"github.com/pergola-deploy/pergola/plugins/container/internal/config"
	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// reasonInput is the reason of the error about unusable input for the container.
const reasonInput = "InputInvalid"

// descriptorList is the container's file of component descriptors.
type descriptorList struct {
	Metadata struct {
		Version string `json:"schemaVersion"`
	} `json:"meta"`
	Components []json.RawMessage `json:"components"`
}

// input returns the files of the init container for the shared directory, by their paths in it.
func (j *podJob) input(ctx context.Context, c *config.Config) (map[string][]byte, error) {
	files := map[string][]byte{}
	add := func(at string, content []byte) { files[strings.TrimPrefix(at, layout.Shared+"/")] = content }
	if len(c.ImportValues) > 0 {
		add(layout.Imports, c.ImportValues)
	}
	if j.request.Target != nil {
		target, err := targetFile(j.request.DeployItem.Namespace, j.request.Target)
		if err != nil {
			return nil, err
		}
		add(layout.Target, target)
	}
	resolved, err := j.resolve(ctx, c)
	if err != nil {
		return nil, err
	}
	for name, content := range resolved.Files {
		add(path.Join(layout.Content, name), content)
	}
	if len(resolved.ComponentDescriptors) > 0 {
		list := descriptorList{Components: resolved.ComponentDescriptors}
		list.Metadata.Version = "v2"
		document, err := json.Marshal(list)
		if err != nil {
			return nil, sdk.ConfigurationError(reasonInput, "spec.config: componentDescriptor: %w", err)
		}
		add(layout.ComponentDescriptor, document)
	}
	return files, nil
}

// resolve returns files and component descriptors, from the provider configuration or by its references. The Resolver
// is asked for references first.
func (j *podJob) resolve(ctx context.Context, c *config.Config) (*content.Resolved, error) {
	descriptor := c.ComponentDescriptor
	blueprintAway := c.Blueprint != nil && c.Blueprint.Reference != nil
	descriptorAway := descriptor != nil && descriptor.Reference != nil
	var blueprint *v1alpha1.BlueprintReference
	if blueprintAway {
		blueprint = c.Blueprint.Reference
	}
	var found *content.Resolved
	var err error
	if resolver := j.deployer.options.Resolver; resolver != nil && (blueprintAway || descriptorAway) {
		found, err = resolver.Resolve(ctx, &content.ResolveRequest{
			Blueprint: blueprint, ComponentDescriptor: descriptor, DeployItem: j.request.DeployItem,
			Context: j.request.Context, Credentials: j.request.Credentials, Log: j.request.Log,
		})
		if err == nil && found != nil && !descriptorAway {
			found.ComponentDescriptors = nil // the provider configuration has them
			if descriptor != nil {
				found.ComponentDescriptors = []json.RawMessage{descriptor.Inline}
			}
		}
	}
	if err == nil && found == nil {
		found, err = j.find(ctx, c, blueprint)
	}
	if err != nil {
		return nil, fmt.Errorf("resolve references of spec.config: %w", err)
	}
	if !blueprintAway {
		return &content.Resolved{Files: c.Files, ComponentDescriptors: found.ComponentDescriptors}, nil
	}
	return found, checkNames(found.Files)
}

// find resolves the references of the provider configuration in the component model.
func (j *podJob) find(
	ctx context.Context, c *config.Config, blueprint *v1alpha1.BlueprintReference,
) (*content.Resolved, error) {
	if blueprint == nil && c.ComponentDescriptor == nil {
		return &content.Resolved{}, nil
	}
	finder, err := j.deployer.finder()
	if err != nil {
		return nil, err
	}
	registries, err := j.registryCredentials(ctx, c)
	if err != nil {
		return nil, err
	}
	credentials := &sdk.Credentials{Registries: registries}
	if found := j.request.Credentials; found != nil {
		credentials.ChartRepositories = found.ChartRepositories
	}
	return finder.Find(ctx, &components.Request{
		Blueprint: blueprint, Descriptor: c.ComponentDescriptor, Context: j.request.Context,
		OCMConfig: j.request.OCMConfig, Credentials: credentials, Warning: j.request.Warning,
	})
}

// checkNames refuses names of files outside the directory of the blueprint, in the place of other files: they may
// come from a repository.
func checkNames(files map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !fs.ValidPath(name) || name == "." {
			return sdk.ConfigurationError(reasonInput, "spec.config: blueprint.ref: "+
				"the resolver has found a file %.200q, which is no path below the blueprint, such as %q; "+
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
