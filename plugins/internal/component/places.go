package component

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"k8s.io/utils/ptr"

	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
	"github.com/pergola-deploy/pergola/sdk"
)

// Places are the registries to look for components, in their order.
type Places struct {
	resolvers []resolver
	// missing is the reason for possible other places; empty if these are all.
	missing string
}

// resolver is a place, or the error of an invalid one, and the components for it.
type resolver struct {
	place Place
	err   error
	// prefix of the components' names in whole segments, and priority, the largest first.
	prefix   string
	priority int
	// name and version restrict the components of the prefix; nil for all.
	name    *regexp.Regexp
	version *semver.Constraints
}

// defaultPriority is the priority of a resolver without one.
const defaultPriority = 10

// Types of the entries of a configuration, without their versions.
const (
	typeGeneric     = "generic.config.ocm.software"
	typeResolvers   = "ocm.config.ocm.software"
	typeGlobs       = "resolvers.config.ocm.software"
	typeCredentials = "credentials.config.ocm.software"
)

// parsePlaces reads the places of components. ignored has a sentence for each part without an effect.
func parsePlaces(repositoryContext, ocmConfig []byte) (places Places, ignored []string, err error) {
	if len(repositoryContext) > 0 {
		place, err := ParsePlace(repositoryContext)
		if err != nil {
			return Places{}, nil, err
		}
		places.resolvers = append(places.resolvers, resolver{place: place, priority: math.MaxInt})
	}
	entries, err := configEntries(ocmConfig)
	if err != nil {
		return Places{}, nil, invalidf("the ConfigMap of the Context's ocmConfig: %w", err)
	}
	for at, entry := range entries {
		resolvers, problem, err := readEntry(entry)
		if err != nil {
			return Places{}, nil, invalidf("the ConfigMap of the Context's ocmConfig: configurations[%d]: %w", at, err)
		}
		if problem != "" {
			ignored = append(ignored, problem)
		}
		places.resolvers = append(places.resolvers, resolvers...)
	}
	slices.SortStableFunc(places.resolvers, func(a, b resolver) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority),
			cmp.Compare(segments(b.prefix), segments(a.prefix)), cmp.Compare(b.prefix, a.prefix))
	})
	return places, ignored, nil
}

// Missing returns the reason for possible other places; empty if these are all.
func (p Places) Missing() string { return p.missing }

// IsEmpty reports whether there are no places, and no unknown ones.
func (p Places) IsEmpty() bool { return len(p.resolvers) == 0 && p.missing == "" }

// reasonConfigIgnored is the reason of the warning about an unused part of the ConfigMap.
const reasonConfigIgnored = "OCMConfigIgnored"

// PlacesOf reads the places of components: a repository context, empty for none, and the ConfigMap of the Context,
// nil for none. The repository context comes first, then resolvers by priority and prefix, then those with patterns
// in the order of their list. A ConfigMap with a Problem counts only for the error about a missing component. warn
// gets the parts without an effect; it may be nil.
func PlacesOf(repositoryContext []byte, config *sdk.OCMConfig, warn func(reason, text string)) (Places, error) {
	if config == nil {
		config = &sdk.OCMConfig{}
	}
	places, ignored, err := parsePlaces(repositoryContext, config.Content)
	places.missing = config.Problem
	for _, text := range ignored {
		if warn != nil {
			warn(reasonConfigIgnored, text)
		}
	}
	return places, err
}

// segments returns the number of segments in a prefix.
func segments(prefix string) int {
	if prefix == "" {
		return 0
	}
	return strings.Count(prefix, "/") + 1
}

// configEntries returns the entries of a configuration; it may be an entry itself.
func configEntries(document []byte) ([]json.RawMessage, error) {
	if len(document) == 0 {
		return nil, nil
	}
	var found struct {
		Type           string            `json:"type"`
		Configurations []json.RawMessage `json:"configurations"`
	}
	content, err := decode(document, &found)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the configuration cannot be read: %w", err)
	case string(content) == "null":
		return nil, nil
	case strings.TrimSuffix(found.Type, "/v1") == typeGeneric:
		return found.Configurations, nil
	default:
		return []json.RawMessage{content}, nil
	}
}

// readEntry returns the resolvers of an entry of a configuration, or a sentence about ignoring it.
func readEntry(entry json.RawMessage) (resolvers []resolver, ignored string, err error) {
	var found struct {
		Type      string         `json:"type"`
		Resolvers []resolverSpec `json:"resolvers"`
	}
	if err := unmarshal(entry, &found); err != nil {
		return nil, "", fmt.Errorf("the entry cannot be read: %w", err)
	}
	switch found.Type {
	case typeCredentials, typeCredentials + "/v1":
		return nil, "the credentials in the ConfigMap of the Context's ocmConfig are ignored, because secrets do not " +
			"belong into a ConfigMap; put them into a Secret of the Context's registryPullSecrets", nil
	case typeResolvers, typeResolvers + "/v1", typeGlobs, typeGlobs + "/v1alpha1":
	default:
		return nil, "", fmt.Errorf("the type %s is not supported; keep entries of the types %s and %s only",
			shown(found.Type), typeResolvers, typeGlobs)
	}
	for at, spec := range found.Resolvers {
		r, err := spec.read(strings.HasPrefix(found.Type, typeGlobs))
		if err != nil {
			return nil, "", fmt.Errorf("resolvers[%d]: %w", at, err)
		}
		if r.place, r.err = ParsePlace(spec.Repository); r.err != nil {
			r.err = invalidf("the ConfigMap of the Context's ocmConfig: %s: resolvers[%d]: %w", found.Type, at, r.err)
		}
		resolvers = append(resolvers, r)
	}
	return resolvers, "", nil
}

// resolverSpec is a resolver as it is written.
type resolverSpec struct {
	Repository json.RawMessage `json:"repository"`
	Prefix     string          `json:"prefix"`
	Priority   *int            `json:"priority"`
	Pattern    string          `json:"componentNamePattern"`
	Version    string          `json:"versionConstraint"`
}

// read returns a resolver without its place. With a pattern it has the least priority, after all resolvers with a
// priority and in the order of the list.
func (s resolverSpec) read(byPattern bool) (r resolver, err error) {
	if !byPattern {
		return resolver{prefix: strings.TrimSuffix(s.Prefix, "/"), priority: ptr.Deref(s.Priority, defaultPriority)}, nil
	}
	r.priority = math.MinInt
	if s.Pattern != "" {
		r.name, err = compileGlob(s.Pattern)
	}
	if err == nil && s.Version != "" {
		r.version, err = semver.NewConstraint(s.Version)
	}
	if err != nil {
		err = fmt.Errorf("the componentNamePattern %s or the versionConstraint %s cannot be read",
			shown(s.Pattern), shown(s.Version))
	}
	return r, err
}

// fits reports whether a resolver is for a component version.
func (r *resolver) fits(component, version string) bool {
	switch rest, ok := strings.CutPrefix(component, r.prefix); {
	case !ok, r.prefix != "" && rest != "" && rest[0] != '/':
		return false
	case r.name != nil && !r.name.MatchString(component):
		return false
	case r.version == nil:
		return true
	}
	v, err := semver.NewVersion(versionOf(version))
	return err == nil && r.version.Check(v)
}

// maxPlaces bounds the places of one component, because each costs requests.
const maxPlaces = 20

// For returns the possible places of a component version, each once, in the order to ask them: the next one only if a
// place has no such version. The error is of the kind fetch.Unavailable if others may be unknown.
func (p Places) For(component, version string) ([]Place, error) {
	var found []Place
	for _, r := range p.resolvers {
		switch {
		case !r.fits(component, version):
		case r.err != nil:
			return nil, r.err
		case slices.Contains(found, r.place):
		case len(found) == maxPlaces:
			return nil, invalidf("component %s %s has more than %d places where it is to be looked up; give the resolvers in "+
				"the ConfigMap that the Context's ocmConfig names longer prefixes", component, version, maxPlaces)
		default:
			found = append(found, r.place)
		}
	}
	switch {
	case len(found) == 0 && p.missing != "":
		return nil, fetch.Errorf(fetch.Unavailable, "%s", p.missing)
	case len(found) == 0:
		return nil, invalidf("nothing says where component %s %s is: set the repositoryContext of the Context, or a "+
			"resolver for it in the ConfigMap that its ocmConfig names", component, version)
	}
	return found, nil
}

// maxGlob bounds a pattern, and so its costs.
const maxGlob = 1024

var (
	globToken    = regexp.MustCompile(`\*+|\[[^]\\]+\]|.`)
	globMeanings = map[string]string{"?": ".", "{": "(?:", "}": ")", ",": "|"}
)

// compileGlob reads a pattern: * and ? stand for any characters, also for slashes, [ab] and [!ab] for one of them,
// and {a,b} for one of the patterns.
func compileGlob(pattern string) (*regexp.Regexp, error) {
	if len(pattern) > maxGlob {
		return nil, errors.New("the pattern is too long")
	}
	expression := globToken.ReplaceAllStringFunc(pattern, func(token string) string {
		switch {
		case token[0] == '*':
			return ".*"
		case len(token) > 1 && token[0] == '[':
			return strings.Replace(token, "[!", "[^", 1)
		}
		if meaning, ok := globMeanings[token]; ok {
			return meaning
		}
		return regexp.QuoteMeta(token)
	})
	return regexp.Compile("^(?:" + expression + ")$")
}
