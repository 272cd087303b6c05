package component

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"oras.land/oras-go/v2/registry"

	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
)

// Descriptor has the content of a component descriptor: the parts of a component version.
type Descriptor struct {
	// Name and Version of the component.
	Name, Version string
	// RepositoryContexts are its repositories so far; the last one is that of its last transfer, or of this read.
	RepositoryContexts []json.RawMessage
	// Resources and References to other components. Identities are unique within a list.
	Resources  []Resource
	References []Reference
	// V2 is the descriptor as JSON in the form of schema v2, its own or converted.
	V2 json.RawMessage
}

// Element has the common fields of resources, references and sources.
type Element struct {
	Name          string   `json:"name"`
	Version       string   `json:"version"`
	ExtraIdentity Identity `json:"extraIdentity"`
}

// Resource is content of a component version, such as a chart.
type Resource struct {
	Element

	// Type such as "helmChart".
	Type string `json:"type"`
	// Access is for ParseAccess.
	Access json.RawMessage `json:"access"`
	// Digest is nil for none.
	Digest *Digest `json:"digest"`
}

// Reference names another component version. Its name and version are fit for a Place.
type Reference struct {
	Element

	// Component is the name of the component; Version is its version.
	Component string `json:"componentName"`
	// Labels may hold the descriptor; see Inline.
	Labels []Label `json:"labels"`
}

// Label is a named value.
type Label struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
}

// labelDescriptor is the label of a reference with the descriptor of the component.
const labelDescriptor = "landscaper.gardener.cloud/component-descriptor"

// Inline returns the descriptor in the labels of a reference, for Parse; nil for none.
func (r Reference) Inline() []byte {
	for _, label := range r.Labels {
		if label.Name == labelDescriptor {
			return label.Value
		}
	}
	return nil
}

// Parse reads a descriptor of schema v2 or v3alpha1, YAML or JSON. Its component and version must be the given ones,
// unless name is empty; then they may be any texts, see CheckName.
func Parse(document []byte, name, version string) (*Descriptor, error) {
	what := "the component descriptor"
	if name != "" {
		what = fmt.Sprintf("the component descriptor of %s %s", name, version)
	}
	content, err := toV2(document)
	if err != nil {
		return nil, invalidf("%s cannot be read: %w", what, err)
	}
	var count struct {
		Component struct {
			Contexts   length `json:"repositoryContexts"`
			Resources  length `json:"resources"`
			Sources    length `json:"sources"`
			References length `json:"componentReferences"`
		} `json:"component"`
	}
	if err := unmarshal(content, &count); err != nil {
		return nil, invalidf("%s cannot be read: %w", what, err)
	}
	if n := count.Component; max(n.Contexts, n.Resources, n.Sources, n.References) > maxElements {
		return nil, fetch.Errorf(fetch.TooLarge, "%s has a list of more than %d elements", what, maxElements)
	}
	var found struct {
		Component struct {
			Name               string            `json:"name"`
			Version            string            `json:"version"`
			RepositoryContexts []json.RawMessage `json:"repositoryContexts"`
			Resources          []Resource        `json:"resources"`
			Sources            []Element         `json:"sources"`
			References         []Reference       `json:"componentReferences"`
		} `json:"component"`
	}
	if err := unmarshal(content, &found); err != nil {
		return nil, invalidf("%s cannot be read: %w", what, err)
	}
	c := found.Component
	if name != "" && (c.Name != name || versionOf(c.Version) != versionOf(version)) {
		return nil, invalidf("%s is that of %s %s: the registry has something else under this name and tag; push the "+
			"component version again", what, shown(c.Name), shown(c.Version))
	}
	for _, r := range c.References {
		if err := CheckName(fmt.Sprintf("%s: reference %s", what, shown(r.Name)), r.Component, r.Version); err != nil {
			return nil, err
		}
	}
	lists := map[string][]Identity{
		"resources": identities(c.Resources), "sources": identities(c.Sources),
		"componentReferences": identities(c.References),
	}
	for list, of := range lists {
		if twice := duplicate(of); twice != nil {
			return nil, invalidf("%s has %s twice in %s; give one of them another name, version or extraIdentity",
				what, twice, list)
		}
	}
	return &Descriptor{
		Name: c.Name, Version: c.Version, RepositoryContexts: c.RepositoryContexts,
		Resources: c.Resources, References: c.References, V2: content,
	}, nil
}

func (e Element) element() Element { return e }

// identities returns the identities of all elements. The version is a part of an identity only if other elements have
// the same name and extraIdentity; a version in the extraIdentity does not count in this comparison.
func identities[T interface{ element() Element }](all []T) []Identity {
	found, groups, alike := make([]Identity, len(all)), make([]string, len(all)), map[string]int{}
	for at, one := range all {
		found[at] = Identity{}
		maps.Copy(found[at], one.element().ExtraIdentity)
		found[at][attributeName] = one.element().Name
		group := maps.Clone(found[at])
		delete(group, attributeVersion)
		groups[at] = group.key()
		alike[groups[at]]++
	}
	for at, one := range all {
		if _, own := found[at][attributeVersion]; !own && alike[groups[at]] > 1 {
			found[at][attributeVersion] = one.element().Version
		}
	}
	return found
}

// duplicate returns an identity found twice in the list; nil for none.
func duplicate(all []Identity) Identity {
	seen := map[string]bool{}
	for _, i := range all {
		if seen[i.key()] {
			return i
		}
		seen[i.key()] = true
	}
	return nil
}

// Resource returns the resource with exactly this identity. The error lists the existing ones.
func (d *Descriptor) Resource(identity Identity) (Resource, error) {
	all := identities(d.Resources)
	at := slices.IndexFunc(all, func(i Identity) bool { return maps.Equal(i, identity) })
	if at >= 0 {
		return d.Resources[at], nil
	}
	has := "it has none"
	if len(all) > 0 {
		texts := make([]string, len(all))
		for at, i := range all {
			texts[at] = i.String()
		}
		has = "it has " + listed(texts)
	}
	return Resource{}, invalidf("component %s %s has no resource %s (%s); name a resource with all of its extraIdentity, "+
		"and with its version only if several are alike otherwise", d.Name, d.Version, identity, has)
}

// blueprintTypes are the types of resources with a blueprint.
var blueprintTypes = []string{"landscaper.gardener.cloud/blueprint", "blueprint"}

// Blueprint returns the blueprint resource of a name.
func (d *Descriptor) Blueprint(name string) (Resource, error) {
	found, err := d.Resource(Identity{attributeName: name})
	if err != nil {
		return Resource{}, err
	}
	if !slices.Contains(blueprintTypes, found.Type) {
		return Resource{}, invalidf("resource %s of component %s %s has the type %s, but a blueprint has one of %s",
			shown(name), d.Name, d.Version, shown(found.Type), listed(blueprintTypes))
	}
	return found, nil
}

// Version is a component version.
type Version struct {
	*Descriptor

	// Home is its repository, without a tag; the zero value if unknown.
	Home registry.Reference
}

// Access returns the place of a resource's content, and its expected digests.
func (v *Version) Access(resource Resource) (Access, Expected, error) {
	access, err := ParseAccess(resource.Access, v.Home)
	if err != nil {
		return nil, Expected{}, err
	}
	kind := KindBlob
	switch a := access.(type) {
	case Artifact:
		kind = KindArtifact
	case Blob:
		kind = a.Kind
	case HelmChart: // a chart repository has no artifact for a comparison
		if d := resource.Digest; d != nil && ofManifest[d.NormalisationAlgorithm] {
			return access, Expected{}, nil
		}
	}
	want, err := resource.Digest.Expected(kind)
	return access, want, err
}
