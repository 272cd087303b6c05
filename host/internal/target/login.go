package target

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"

	"github.com/pergola-deploy/pergola/host/internal/lscontext"
)

// The fields of the content of a Kubernetes cluster with a ServiceAccount to log in with.
const (
	oidcField = "oidcConfig"
	selfField = "selfConfig"
)

// Lifetimes of tokens in seconds: the default is Landscaper's, the bounds are the API server's.
const (
	defaultExpiration = 24 * 60 * 60
	minExpiration     = 10 * 60
	maxExpiration     = 1 << 32
)

// login says how to log in to a cluster: with a token for a ServiceAccount. It does not change.
type login struct {
	// field of the content it was read from: oidcField or selfField.
	field          string
	serviceAccount string
	// audiences of the token; none for those of the API server that issues it.
	audiences []string
	// expiration is how many seconds the token is to live.
	expiration int64
	// cluster to log in to; nil for the issuer of the token.
	cluster *clientcmdv1.Cluster
}

// readLogin reads an oidcConfig or a selfConfig. It is strict: a misspelt field would otherwise silently mean a
// default. onlyAccount is the ServiceAccount of each; empty if each names its own.
func readLogin(value any, field, onlyAccount string) (*login, []problem) {
	known := []string{"serviceAccount", "expirationSeconds"}
	if field == oidcField {
		known = []string{"server", "caData", "serviceAccount", "audience", "expirationSeconds"}
	}
	problems := append(
		unknown(value, field, known...), unknown(get(value, "serviceAccount"), field+".serviceAccount", "name")...)
	var fields struct {
		Server            string   `json:"server"`
		CAData            string   `json:"caData"`
		Audience          []string `json:"audience"`
		ExpirationSeconds *int64   `json:"expirationSeconds"`
		ServiceAccount    struct {
			Name string `json:"name"`
		} `json:"serviceAccount"`
	}
	if mistakes := decode(value, &fields, field); len(mistakes) > 0 {
		return nil, append(problems, mistakes...)
	}
	check := func(name string, err error) {
		if err != nil && len(problems) < maxProblems {
			problems = append(problems, invalid(field+"."+name, "%v", err))
		}
	}
	l := &login{
		field: field, serviceAccount: cmp.Or(fields.ServiceAccount.Name, onlyAccount), audiences: fields.Audience,
		expiration: defaultExpiration,
	}
	if field == oidcField {
		check("server", checkServer(fields.Server))
		authorities, err := lscontext.Certificates(fields.CAData)
		check("caData", err)
		l.cluster = &clientcmdv1.Cluster{Server: fields.Server, CertificateAuthorityData: authorities}
		for i, audience := range fields.Audience {
			if audience == "" {
				check(indexed("audience", i), errors.New("expected a text that is not empty"))
			}
		}
	}
	check("serviceAccount.name", checkAccount(l.serviceAccount, onlyAccount))
	if fields.ExpirationSeconds != nil {
		l.expiration = *fields.ExpirationSeconds
	}
	if l.expiration < minExpiration || l.expiration > maxExpiration {
		check("expirationSeconds",
			fmt.Errorf("expected a whole number from %d to %d", minExpiration, int64(maxExpiration)))
	}
	return l, problems
}

// unknown returns a problem for each field of an object outside of names.
func unknown(value any, field string, names ...string) (problems []problem) {
	object, _ := value.(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if !slices.ContainsFunc(names, func(name string) bool { return fold(name) == fold(key) }) {
			problems = append(problems, invalid(join(field, key), "is not known; expected only %s", strings.Join(names, ", ")))
		}
	}
	return problems
}

// checkServer checks the address of an API server. A token must not travel in clear text, and the address is shown in
// messages.
func checkServer(text string) error {
	// The error quotes the text and maybe a password in it.
	address, err := url.Parse(text)
	switch {
	case text == "":
		return errors.New("is missing")
	case err != nil || address.Scheme != "https" || address.Hostname() == "":
		return errors.New("is no https URL; write https://HOST:PORT")
	case address.User != nil:
		return errors.New("has a user or a password; remove it, as the token is the credential")
	case strings.ContainsAny(text, "?#"):
		return errors.New("has a query or a fragment; remove it")
	}
	return nil
}

// checkAccount checks the name of a ServiceAccount. It must be only, if that is not empty.
func checkAccount(name, only string) error {
	switch {
	case name == "":
		return errors.New("is missing")
	case len(validation.ValidateServiceAccountName(name, false)) > 0:
		return errors.New("is no name that a ServiceAccount can have: lower case letters, digits, '-' and '.'")
	case only != "" && name != only:
		return fmt.Errorf("is not %q, the only ServiceAccount of the namespace that the operator of the host allows; "+
			"leave serviceAccount out", only)
	}
	return nil
}

// ownCluster returns the cluster of a client configuration, without any of its credentials. The host reads a file with
// the certificates of the authority, each time as it may be replaced: no plugin can be told to read it. The error is
// about the configuration, or that file.
func ownCluster(config *rest.Config) (*clientcmdv1.Cluster, error) {
	tls := config.TLSClientConfig
	encrypted := tls.Insecure || len(tls.CAData) > 0 || tls.CAFile != "" || len(tls.CertData) > 0 || tls.CertFile != ""
	server, _, err := rest.DefaultServerURL(config.Host, config.APIPath, schema.GroupVersion{}, encrypted)
	if err != nil {
		return nil, fmt.Errorf("read the address of the API server: %w", err)
	}
	server.User = nil
	cluster := &clientcmdv1.Cluster{
		Server: server.String(), TLSServerName: tls.ServerName, InsecureSkipTLSVerify: tls.Insecure,
	}
	if tls.Insecure {
		// client-go refuses certificates beside an insecure cluster.
		return cluster, nil
	}
	cluster.CertificateAuthorityData = tls.CAData
	if len(tls.CAData) == 0 && tls.CAFile != "" {
		if cluster.CertificateAuthorityData, err = os.ReadFile(tls.CAFile); err != nil {
			return nil, fmt.Errorf("read the certificate authority of the API server: %w", err)
		}
	}
	return cluster, nil
}
