package component

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"slices"
	"strings"

	"oras.land/oras-go/v2/registry"

	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
)

// Place is a registry with components in it.
type Place struct {
	// Host is the registry, with its port if it has one.
	Host string
	// Prefix is before all repositories, such as "a/b"; empty for none.
	Prefix string
	// HashedNames names repositories by the hash of the component's name.
	HashedNames bool
	// WantsPlainHTTP is set for a repository context with an address with http://. The operator decides whether the
	// registry is reached this way.
	WantsPlainHTTP bool
}

// String returns the place for users.
func (p Place) String() string { return path.Join(p.Host, p.Prefix) }

// Repository returns the repository of a component in the registry. The name must be one of a Key, a Descriptor or a
// Reference.
func (p Place) Repository(component string) string {
	if p.HashedNames {
		sum := sha256.Sum256([]byte(component))
		return path.Join(p.Prefix, hex.EncodeToString(sum[:]))
	}
	return path.Join(p.Prefix, "component-descriptors", component)
}

// Home returns the repository of a component, without a tag.
func (p Place) Home(component string) registry.Reference {
	return registry.Reference{Registry: fetch.NormalizeHost(p.Host), Repository: p.Repository(component)}
}

// Types of repository contexts, without their versions: those of registries, in the old and the new library, and
// those of files.
var (
	registryTypes = []string{"OCIRegistry", "ociRegistry", "oci", "OCI", "OCIRepository"}
	fileTypes     = []string{
		"CommonTransportFormat", "CTF", "ComponentArchive", "DockerDaemon", "Empty", "ArtifactSet", "local", "inline",
	}
)

// ParsePlace reads a repository context: YAML or JSON.
func ParsePlace(document []byte) (Place, error) {
	var found struct {
		Type    string `json:"type"`
		BaseURL string `json:"baseUrl"`
		SubPath string `json:"subPath"`
		Mapping string `json:"componentNameMapping"`
	}
	if _, err := decode(document, &found); err != nil {
		return Place{}, invalidf("the repository context cannot be read: %w", err)
	}
	switch kind := strings.TrimSuffix(found.Type, "/v1"); {
	case slices.Contains(registryTypes, kind):
	case slices.Contains(fileTypes, kind):
		return Place{}, invalidf("the repository context has the type %s, which reads files of the deployer or of the "+
			"installation; transfer the component to a registry and use OCIRegistry", kind)
	default:
		return Place{}, invalidf("the repository context has the type %s, but expected that of a registry: %s",
			shown(found.Type), strings.Join(registryTypes, ", "))
	}
	place, err := parseBaseURL(found.BaseURL, found.SubPath)
	if err != nil {
		return Place{}, err
	}
	switch found.Mapping {
	case "", "urlPath":
	case "sha256-digest":
		place.HashedNames = true
	default:
		return Place{}, invalidf("the repository context has the componentNameMapping %s, but expected urlPath or "+
			"sha256-digest", shown(found.Mapping))
	}
	return place, nil
}

// parseBaseURL reads the address of a registry. Its path comes before subPath.
func parseBaseURL(baseURL, subPath string) (place Place, err error) {
	scheme, address, ok := strings.Cut(baseURL, "://")
	if !ok {
		scheme, address = "https", baseURL
	}
	host, above, _ := strings.Cut(address, "/")
	place = Place{
		Host:           strings.ToLower(host),
		Prefix:         strings.ToLower(strings.Trim(strings.Trim(above, "/")+"/"+strings.Trim(subPath, "/"), "/")),
		WantsPlainHTTP: scheme == "http",
	}
	ref := registry.Reference{Registry: place.Host, Repository: path.Join(place.Prefix, "x")}
	switch {
	case len(baseURL)+len(subPath) > maxName:
		return Place{}, invalidf("the repository context has a baseUrl and a subPath of more than %d characters together",
			maxName)
	case baseURL == "":
		return Place{}, invalidf("the repository context has no baseUrl; set it to the registry, such as " +
			"registry.example.org")
	case strings.Contains(address, "@"):
		return Place{}, invalidf("the repository context has a baseUrl with a user; put the login into a Secret of the " +
			"Context's registryPullSecrets")
	case !slices.Contains([]string{"https", "oci", "http"}, scheme), host == "", ref.ValidateRegistry() != nil:
		return Place{}, invalidf("the repository context has the baseUrl %s, but expected the host of a registry, such as "+
			"registry.example.org/path, with https:// or without a scheme", shown(baseURL))
	case ref.ValidateRepository() != nil:
		return Place{}, invalidf("the repository context leads to the path %s in the registry (from baseUrl and subPath), "+
			"but no repository has such a name; use letters, digits and between them . _ - /", shown(place.Prefix))
	}
	return place, nil
}
