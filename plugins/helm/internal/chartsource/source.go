package chartsource

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"oras.land/oras-go/v2/registry"

	"github.com/pergola-deploy/pergola/plugins/helm/chart"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
	helmv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
)

// maxText bounds addresses, references and names.
const maxText = 2048

// Source is the source of a chart. The zero Source is none. Its text is for users.
type Source struct {
	origin origin
}

// origin is one kind of source.
type origin interface {
	// String names the source without secrets.
	String() string
}

type (
	// rawOrigin is an archive in the provider configuration.
	rawOrigin struct{ content []byte }
	// remoteOrigin is an archive at an address.
	remoteOrigin struct{ url *url.URL }
	// registryOrigin is a chart in an OCI registry. Its reference is a tag or a digest.
	registryOrigin struct{ ref registry.Reference }
	// repositoryOrigin is a chart in a chart repository.
	repositoryOrigin struct {
		url           *url.URL
		name, version string
	}
	// resolverOrigin is a chart for a resolver.
	resolverOrigin struct {
		field chart.Field
		chart helmv1alpha1.Chart
	}
)

// String names the source for users, without secrets.
func (s Source) String() string {
	if s.origin == nil {
		return "no chart"
	}
	return s.origin.String()
}

// NeedsResolver returns the field of the source if a resolver may be asked for it; empty otherwise.
func (s Source) NeedsResolver() chart.Field {
	o, ok := s.origin.(resolverOrigin)
	if !ok {
		return ""
	}
	return o.field
}

func (o rawOrigin) String() string      { return "the archive in the provider configuration" }
func (o remoteOrigin) String() string   { return "archive " + fetch.Display(o.url) }
func (o registryOrigin) String() string { return "chart " + o.ref.String() }
func (o repositoryOrigin) String() string {
	version := o.version
	if version != "" {
		version = " " + version
	}
	return fmt.Sprintf("chart %s%s of repository %s", o.name, version, fetch.Display(o.url))
}
func (o resolverOrigin) String() string { return fmt.Sprintf("the chart of chart.%s", o.field) }

// Parse reads the source of a chart. The errors are all mistakes in it; none repeats a possible secret.
func Parse(c helmv1alpha1.Chart, path *field.Path) (Source, field.ErrorList) {
	var set []string
	for _, f := range []struct {
		name  string
		isSet bool
	}{
		{"ref", c.Ref != ""}, {"helmChartRepo", c.HelmChartRepo != nil}, {"archive", c.Archive != nil},
		{string(chart.ResourceRef), c.ResourceRef != ""}, {string(chart.FromResource), !isNull(c.FromResource)},
	} {
		if f.isSet {
			set = append(set, f.name)
		}
	}
	switch len(set) {
	case 0:
		return Source{}, field.ErrorList{field.Required(path,
			"nothing says where the chart comes from; set one of ref, helmChartRepo, archive.raw and archive.remote")}
	case 1:
	default:
		names := fmt.Sprintf("%s.%s", path, strings.Join(set, fmt.Sprintf(" and %s.", path)))
		return Source{}, field.ErrorList{field.Forbidden(path, names+" are set, "+onlyOne)}
	}
	var o origin
	var errs field.ErrorList
	switch at := path.Child(set[0]); set[0] {
	case "ref":
		o, errs = parseRef(c.Ref, at)
	case "helmChartRepo":
		o, errs = parseRepository(*c.HelmChartRepo, at)
	case "archive":
		o, errs = parseArchive(*c.Archive, at)
	default:
		o = resolverOrigin{field: chart.Field(set[0]), chart: c}
	}
	if len(errs) > 0 {
		return Source{}, errs
	}
	return Source{origin: o}, nil
}

// onlyOne ends the error about several places.
const onlyOne = "but a chart comes from one place; keep one of them"

func isNull(document []byte) bool {
	document = bytes.TrimSpace(document)
	return len(document) == 0 || string(document) == "null"
}

func parseArchive(a helmv1alpha1.Archive, path *field.Path) (origin, field.ErrorList) {
	switch {
	case a.Raw != "" && a.Remote != nil:
		return nil, field.ErrorList{field.Forbidden(path, "raw and remote are both set, "+onlyOne)}
	case a.Remote != nil:
		u, err := parseURL(a.Remote.URL, path.Child("remote", "url"))
		if err != nil {
			return nil, field.ErrorList{err}
		}
		return remoteOrigin{url: u}, nil
	case a.Raw != "":
		content, err := base64.StdEncoding.DecodeString(a.Raw)
		if err != nil {
			return nil, field.ErrorList{field.Invalid(path.Child("raw"), omitted, fmt.Sprintf("expected base64: %v", err))}
		}
		if !isGzip(content) {
			return nil, field.ErrorList{field.Invalid(path.Child("raw"), omitted,
				`expected a gzipped tar in base64, as "helm package" makes it, but found `+describeContent(content))}
		}
		return rawOrigin{content: content}, nil
	default:
		return nil, field.ErrorList{field.Required(path, "set raw or remote")}
	}
}

// omitted stands in an error for a value too long to be repeated, or possibly secret.
const omitted = "…"

// parseURL reads an address of http or https. It refuses a user in it, because messages, logs and caches would have
// it, too.
func parseURL(text string, path *field.Path) (*url.URL, *field.Error) {
	if text == "" {
		return nil, field.Required(path, "expected an address with http:// or https://")
	}
	u, err := url.Parse(text)
	switch {
	case len(text) > maxText:
		return nil, field.TooLong(path, omitted, maxText)
	case err != nil:
		return nil, field.Invalid(path, omitted, "expected an address with http:// or https://, but found none")
	case u.User != nil:
		return nil, field.Invalid(path, fetch.Display(u),
			"expected an address without a user, but found one; put the credentials in the Context's helmChartRepoCredentials")
	case u.Scheme == "oci":
		return nil, field.Invalid(path, fetch.Display(u),
			"expected http:// or https://; for a chart in an OCI registry set chart.ref")
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.Opaque != "":
		return nil, field.Invalid(path, fetch.Display(u), "expected an address with http:// or https:// and a host")
	}
	u.Fragment, u.RawFragment = "", ""
	if u.Path == "" {
		u.Path = "/" // otherwise package url takes an added path for the beginning of one
	}
	return u, nil
}

// parseRef reads a reference. As Helm does, it takes a version with a "+" for the tag with a "_" instead, because no
// tag has a "+".
func parseRef(text string, path *field.Path) (origin, field.ErrorList) {
	const example = "such as registry.example.org/charts/shop:1.2.3 or registry.example.org/charts/shop@sha256:…"
	if len(text) > maxText {
		return nil, field.ErrorList{field.TooLong(path, omitted, maxText)}
	}
	shown := text
	if strings.Contains(strings.SplitN(strings.TrimPrefix(text, "oci://"), "/", 2)[0], "@") {
		shown = omitted // a user and a password are no part of a reference
	}
	ref, err := registry.ParseReference(strings.ReplaceAll(strings.TrimPrefix(text, "oci://"), "+", "_"))
	switch {
	case strings.Contains(strings.TrimPrefix(text, "oci://"), "://"):
		return nil, field.ErrorList{field.Invalid(path, omitted, "expected a reference with oci:// or without a scheme, "+
			example+"; for an archive at an address set chart.archive.remote.url")}
	case err != nil || shown == omitted:
		return nil, field.ErrorList{field.Invalid(path, shown,
			"expected a reference to a chart in an OCI registry, "+example)}
	case ref.Reference == "":
		return nil, field.ErrorList{field.Invalid(path, text,
			"the reference has neither a tag nor a digest; add one, "+example)}
	}
	ref.Registry = fetch.NormalizeHost(ref.Registry)
	return registryOrigin{ref: ref}, nil
}

// isNoName reports whether a character is in no name of a chart.
func isNoName(c rune) bool { return c <= ' ' || c == 0x7f || strings.ContainsRune(`/\"'`, c) }

func parseRepository(r helmv1alpha1.HelmChartRepo, path *field.Path) (origin, field.ErrorList) {
	var errs field.ErrorList
	u, err := parseURL(r.HelmChartRepoURL, path.Child("helmChartRepoUrl"))
	if err != nil {
		errs = append(errs, err)
	}
	name := path.Child("helmChartName")
	switch {
	case r.HelmChartName == "":
		errs = append(errs, field.Required(name, "expected the name of the chart in the repository"))
	case len(r.HelmChartName) > maxText:
		errs = append(errs, field.TooLong(name, omitted, maxText))
	case strings.ContainsFunc(r.HelmChartName, isNoName):
		errs = append(errs, field.Invalid(name, r.HelmChartName,
			"expected the name of a chart, but found characters that no name has"))
	}
	if _, err := helm.ParseConstraint(r.HelmChartVersion); err != nil {
		errs = append(errs, field.Invalid(path.Child("helmChartVersion"), r.HelmChartVersion, err.Error()))
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return repositoryOrigin{url: u, name: r.HelmChartName, version: r.HelmChartVersion}, nil
}
