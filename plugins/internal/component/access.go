package component

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/registry"
)

// Access is the place of a resource's content. It is one of Artifact, Blob, HelmChart and Wget.
type Access interface{ isAccess() }

// Artifact is an artifact in a registry.
type Artifact struct {
	// Reference has a host, a repository and a tag or a digest.
	Reference registry.Reference
}

// Blob is a blob in a registry.
type Blob struct {
	// Repository has a host and a repository.
	Repository registry.Reference
	// Chunks are the digests of the blobs of the content, at least one.
	Chunks []digest.Digest
	// Kind is KindArtifactSet or KindBlob.
	Kind Kind
}

// HelmChart is a chart in a chart repository.
type HelmChart struct {
	// Repository is the address.
	Repository string
	// Name and Version of the chart; the version is empty for the latest.
	Name, Version string
}

// Wget is the answer to a GET of an address.
type Wget struct {
	// URL is the address. It may have a secret in it.
	URL string
}

func (Artifact) isAccess()  {}
func (Blob) isAccess()      {}
func (HelmChart) isAccess() {}
func (Wget) isAccess()      {}

// ParseAccess reads the access of a resource; home is the repository of its component. A scheme in the access does
// not matter: the connection to a registry is up to the operator. Without a home, an access to it is refused. Errors
// begin with "the access".
func ParseAccess(document json.RawMessage, home registry.Reference) (Access, error) {
	var a accessFields
	if err := unmarshal(document, &a); err != nil {
		return nil, invalidf("the access cannot be read: %w", err)
	}
	kind := strings.TrimSuffix(a.Type, "/v1")
	if home.Registry == "" && slices.Contains(homeTypes, kind) {
		return nil, invalidf("the access has the type %s, but nothing says where the component is; set the "+
			"repositoryContext of the Context", kind)
	}
	switch kind {
	case "ociArtifact", "OCIArtifact", "ociRegistry", "ociImage", "OCIImage":
		return parseArtifact("imageReference", a.ImageReference)
	case "relativeOciReference":
		return parseArtifact("reference", home.Registry+"/"+strings.TrimPrefix(a.Reference, "/"))
	case "localBlob", "LocalBlob":
		return a.blob(home, "localReference", a.LocalReference)
	case "localOciBlob":
		return a.blob(home, "digest", a.Digest)
	case "ociBlob", "OCIImageLayer":
		repository, inRef, _ := strings.Cut(a.Ref, "@")
		found, err := parseArtifact("ref", repository)
		if err != nil {
			return nil, err
		}
		return a.blob(found.Reference, "digest", cmp.Or(a.Digest, inRef))
	case "helm", "Helm":
		return a.helm()
	case "wget", "Wget":
		return a.wget()
	default:
		return nil, invalidf("the access has the type %s, which is not supported; transfer the component with its resources "+
			"as local blobs, or use one of ociArtifact, localBlob, ociBlob, helm and wget", shown(a.Type))
	}
}

// homeTypes are the types of accesses to the registry of the component.
var homeTypes = []string{"relativeOciReference", "localBlob", "LocalBlob", "localOciBlob"}

// accessFields are the fields of all types.
type accessFields struct {
	Type           string `json:"type"`
	ImageReference string `json:"imageReference"`
	Reference      string `json:"reference"`
	LocalReference string `json:"localReference"`
	MediaType      string `json:"mediaType"`
	Ref            string `json:"ref"`
	Digest         string `json:"digest"`
	HelmRepository string `json:"helmRepository"`
	HelmChart      string `json:"helmChart"`
	Version        string `json:"version"`
	URL            string `json:"url"`
	Verb           string `json:"verb"`

	// These are only refused.
	CACert     json.RawMessage `json:"caCert"`
	Keyring    json.RawMessage `json:"keyring"`
	Header     json.RawMessage `json:"header"`
	Body       json.RawMessage `json:"body"`
	NoRedirect json.RawMessage `json:"noRedirect"`
}

// parseArtifact reads a reference by the rules of Docker. The digest counts even beside a tag.
func parseArtifact(field, text string) (Artifact, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		scheme, rest = "", text
	}
	host, repository, deep := strings.Cut(rest, "/")
	if strings.Contains(host, "@") && deep {
		text = "…" // there is a user in it
	}
	switch isHost := scheme != "" || strings.ContainsAny(host, ".:") || host == "localhost"; {
	case !deep:
		host, repository = dockerHub, "library/"+rest
	case !isHost:
		host, repository = dockerHub, rest
	case host == dockerHub && !strings.Contains(repository, "/"):
		repository = "library/" + repository
	}
	ref, err := registry.ParseReference(host + "/" + repository)
	if err != nil || !slices.Contains([]string{"", "oci", "https", "http"}, scheme) {
		return Artifact{}, invalidf("the access has the %s %s, but expected a reference such as "+
			"registry.example.org/charts/shop:1.2.3", field, shown(text))
	}
	ref.Reference = cmp.Or(ref.Reference, "latest")
	return Artifact{Reference: ref}, nil
}

const (
	// maxChunks bounds the blobs of a local blob.
	maxChunks = 100
	// dockerHub is the registry of references without a host.
	dockerHub = "docker.io"
)

// Media types of OCI artifacts, without their suffix for a tar. The last one is always in a tar.
var artifactTypes = []string{
	"application/vnd.oci.image.manifest.v1", "application/vnd.oci.image.index.v1",
	"application/vnd.ocm.software.oci.layout.v1",
}

// blob reads the digests of a blob; by its media type it may be an artifact.
func (a *accessFields) blob(repository registry.Reference, field, digests string) (Access, error) {
	repository.Reference = ""
	blob := Blob{Repository: repository, Kind: KindBlob}
	for part := range strings.SplitSeq(digests, ",") {
		chunk := digest.Digest(strings.TrimSpace(part))
		if chunk.Validate() != nil || len(blob.Chunks) == maxChunks {
			return nil, invalidf("the access has the %s %s, but expected the digest of a blob, or at most %d with commas, as "+
				"the transfer of the component to a registry makes it", field, shown(digests), maxChunks)
		}
		blob.Chunks = append(blob.Chunks, chunk)
	}
	switch {
	case !slices.Contains(artifactTypes, baseType(a.MediaType)):
	case strings.Contains(a.MediaType, "+tar"):
		blob.Kind = KindArtifactSet
	case len(blob.Chunks) > 1:
		return nil, invalidf("the access has a %s with several digests, but the mediaType of one manifest", field)
	default:
		repository.Reference = blob.Chunks[0].String()
		return Artifact{Reference: repository}, nil
	}
	return blob, nil
}

// helm reads a chart in a chart repository or a registry. The version in helmChart counts before the other.
func (a *accessFields) helm() (Access, error) {
	if isSet(a.CACert) || isSet(a.Keyring) {
		return nil, invalidf("the access has a caCert or a keyring, which is not supported; put the certificates into the " +
			"Context's helmChartRepoCredentials (customCAData), or have the operator add them to the registry")
	}
	chart, version, ok := strings.Cut(a.HelmChart, ":")
	if !ok {
		version = a.Version
	}
	if chart == "" || a.HelmRepository == "" {
		return nil, invalidf("the access has no helmChart or no helmRepository, but expected both")
	}
	if !strings.HasPrefix(a.HelmRepository, "oci://") {
		return HelmChart{Repository: a.HelmRepository, Name: chart, Version: version}, nil
	}
	if version == "" {
		return nil, invalidf("the access has no version of the chart, which it needs in a registry")
	}
	tag := strings.ReplaceAll(version, "+", "_") // as Helm does
	return parseArtifact("helmRepository", strings.TrimSuffix(a.HelmRepository, "/")+"/"+chart+":"+tag)
}

func (a *accessFields) wget() (Access, error) {
	switch {
	case isSet(a.Header), isSet(a.Body), isSet(a.NoRedirect), a.Verb != "" && !strings.EqualFold(a.Verb, "GET"):
		return nil, invalidf("the access has a header, a body, a verb or noRedirect, but only a plain GET is supported")
	case a.URL == "":
		return nil, invalidf("the access has no url")
	default:
		return Wget{URL: a.URL}, nil
	}
}

// isSet reports whether a field has another value than its default.
func isSet(value json.RawMessage) bool {
	return !slices.Contains([]string{"", "null", `""`, "false", "{}", "[]"}, string(value))
}
