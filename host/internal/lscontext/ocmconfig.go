package lscontext

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// OCMConfigKey is the key of a ConfigMap with the configuration of the component model, as in Landscaper.
	OCMConfigKey = ".ocmconfig"
	// maxOCMConfig bounds a configuration: a resolver takes some hundred bytes, and each call carries all of them.
	maxOCMConfig = 256 << 10
)

// ConfigMapReader reads ConfigMaps; see Resolver.
type ConfigMapReader interface {
	// ConfigMap returns a ConfigMap; only its Data counts, and must not be changed. It may be an older version unless
	// fresh is true. The error wraps that of the API server; a missing ConfigMap was confirmed with a live read.
	ConfigMap(ctx context.Context, name types.NamespacedName, fresh bool) (*corev1.ConfigMap, error)
}

// Reader reads the objects named by a Context.
type Reader interface {
	SecretReader
	ConfigMapReader
}

// OCMConfig returns the configuration in the ConfigMap of the Context's ocmConfig; nil without an error if there is
// none. The error wraps that of the reader, and is worth another try. OCMConfig blocks on API requests until ctx ends.
func OCMConfig(ctx context.Context, reader ConfigMapReader, lsContext *v1alpha1.Context) (*sdk.OCMConfig, error) {
	if lsContext.OCMConfig == nil {
		return nil, nil //nolint:nilnil // most Contexts name none
	}
	const field = "ocmConfig"
	in, name := placeOf(lsContext), lsContext.OCMConfig.Name
	config := &sdk.OCMConfig{ConfigMap: cut(name)}
	kind := named[corev1.ConfigMap]{
		kind: "ConfigMap", resource: "configmaps", read: reader.ConfigMap,
		advice: fmt.Sprintf("create it with the key %q, or remove %s", OCMConfigKey, field),
	}
	problem, err := told(kind.confirmed(ctx, in, field, name, func(found *corev1.ConfigMap) error {
		content, err := ocmConfigIn(found.Data)
		config.Content = content
		return err
	}))
	if err != nil {
		return nil, fmt.Errorf("resolve %s of %s: %w", field, in.where, err)
	}
	config.Problem = problem
	return config, nil
}

// ConfigMapOf returns the name of the ConfigMap in a Context's ocmConfig; empty for none, and for an impossible name.
func ConfigMapOf(lsContext *v1alpha1.Context) string {
	if lsContext.OCMConfig == nil || len(validation.IsDNS1123Subdomain(lsContext.OCMConfig.Name)) > 0 {
		return ""
	}
	return lsContext.OCMConfig.Name
}

// ocmConfigIn returns the configuration in the data of a ConfigMap.
func ocmConfigIn(data map[string]string) ([]byte, error) {
	content, ok := data[OCMConfigKey]
	switch {
	case !ok && len(data) == 0:
		return nil, fmt.Errorf("data is empty; put the configuration into the key %q", OCMConfigKey)
	case !ok:
		return nil, fmt.Errorf("data has no key %q, but %s; put the configuration into that key", OCMConfigKey,
			cut(fmt.Sprintf("%q", slices.Sorted(maps.Keys(data)))))
	case len(content) > maxOCMConfig:
		return nil, fmt.Errorf("%s has %d bytes, but at most %d KiB are handed over; remove some of it", OCMConfigKey,
			len(content), maxOCMConfig>>10)
	default:
		return []byte(content), nil
	}
}
