package target

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"

	"github.com/pergola-deploy/pergola/host/internal/text"
)

const (
	adviceExec        = "running commands is not allowed; use a token or client-certificate-data"
	adviceProvider    = "authentication plugins are not allowed; use a token or client-certificate-data"
	adviceImpersonate = "impersonation is not allowed; use that user's own credentials"
	adviceFile        = "reading files is not allowed; use "
)

// Fields forbidden in each cluster and user of a kubeconfig, folded, and the advice for the user.
var (
	forbiddenInCluster = map[string]string{"certificate-authority": adviceFile + "certificate-authority-data"}
	forbiddenInUser    = map[string]string{
		"exec":               adviceExec,
		"auth-provider":      adviceProvider,
		"client-certificate": adviceFile + "client-certificate-data",
		"client-key":         adviceFile + "client-key-data",
		"tokenfile":          adviceFile + "token",
		"as":                 adviceImpersonate,
		"as-uid":             adviceImpersonate,
		"as-groups":          adviceImpersonate,
		"as-user-extra":      adviceImpersonate,
	}
)

// rebuild writes a kubeconfig anew: the current context with its cluster and user, and of these only the fields named
// here. It refuses forbidden fields in any cluster or user, used or not.
func rebuild(kubeconfig map[string]any) (string, []problem) {
	problems := slices.Concat(
		checkEntries(kubeconfig, "clusters", "cluster", forbiddenInCluster),
		checkEntries(kubeconfig, "users", "user", forbiddenInUser),
		checkEntries(kubeconfig, "contexts", "context", nil),
	)
	// The internal version of client-go has entries in maps instead of lists.
	if version := get(kubeconfig, "apiVersion"); !isEmpty(version) && version != "v1" {
		problems = append(problems, invalid("apiVersion", "is not v1"))
	}
	if len(problems) > 0 {
		return "", problems
	}
	config, problems := loadCurrent(kubeconfig)
	if len(problems) > 0 {
		return "", problems
	}
	current := config.Contexts[config.CurrentContext]
	field := "contexts[" + quote(config.CurrentContext) + "]"
	cluster, user := config.Clusters[current.Cluster], config.AuthInfos[current.AuthInfo]
	if cluster == nil {
		problems = append(problems, invalid(field+".cluster", "is missing"))
	} else {
		problems = append(problems, checkCluster("clusters["+quote(current.Cluster)+"]", cluster)...)
	}
	if user == nil {
		problems = append(problems, invalid(field+".user", "is missing"))
	}
	if len(problems) > 0 {
		return "", problems
	}
	return writeKubeconfig(config.CurrentContext, current.Namespace,
		clientcmdv1.NamedCluster{Name: current.Cluster, Cluster: clientcmdv1.Cluster{
			Server:                   cluster.Server,
			TLSServerName:            cluster.TLSServerName,
			InsecureSkipTLSVerify:    cluster.InsecureSkipTLSVerify,
			CertificateAuthorityData: cluster.CertificateAuthorityData,
			ProxyURL:                 cluster.ProxyURL,
			DisableCompression:       cluster.DisableCompression,
		}},
		clientcmdv1.NamedAuthInfo{Name: current.AuthInfo, AuthInfo: clientcmdv1.AuthInfo{
			ClientCertificateData: user.ClientCertificateData,
			ClientKeyData:         user.ClientKeyData,
			Token:                 user.Token,
			Username:              user.Username,
			Password:              user.Password,
		}}), nil
}

// checkCluster finds faults of a cluster that clients meet later, and do not name.
func checkCluster(field string, cluster *clientcmdapi.Cluster) (problems []problem) {
	switch {
	case cluster.Server == "": // client-go would go to localhost
		problems = append(problems, invalid(field+".server", "is missing"))
	case !strings.Contains(cluster.Server, "://"): // client-go would use HTTP, also beside certificates
		problems = append(problems, invalid(field+".server", "is no address with https://; put that before it"))
	}
	if cluster.InsecureSkipTLSVerify && len(cluster.CertificateAuthorityData) > 0 {
		problems = append(problems,
			invalid(field+".insecure-skip-tls-verify", "is set beside certificate-authority-data; remove one of them"))
	}
	return problems
}

// loadCurrent reads a kubeconfig as client-go does, and leaves its current context alone in it. Errors of client-go are
// not passed on where they may quote values.
func loadCurrent(kubeconfig map[string]any) (*clientcmdapi.Config, []problem) {
	config, err := clientcmd.Load([]byte(encode(kubeconfig)))
	if err != nil {
		wrong := mismatch(err, "")
		if wrong.field == "" {
			wrong = invalid("kubeconfig", "is not one of version v1 that kubectl can read")
		}
		return nil, []problem{wrong}
	}
	if config.CurrentContext == "" {
		return nil, []problem{invalid("current-context", "is missing")}
	}
	if err := clientcmdapi.MinifyConfig(config); err != nil {
		// It quotes the name of an entry.
		return nil, []problem{invalid("kubeconfig", "%s", text.Cut(err.Error(), 2*maxName))}
	}
	return config, nil
}

// checkEntries checks a list of named entries with their content in the field inner. client-go would miss these faults,
// or quote secrets in its errors.
func checkEntries(
	kubeconfig map[string]any, list, inner string, forbiddenFields map[string]string,
) (problems []problem) {
	entries, _ := get(kubeconfig, list).([]any)
	seen := map[string]bool{}
	for i, entry := range entries {
		name, _ := get(entry, "name").(string)
		if name == "" {
			problems = append(problems, invalid(indexed(list, i)+".name", "is missing"))
			name = strconv.Itoa(i)
		}
		field := list + "[" + quote(name) + "]"
		if seen[name] {
			problems = append(problems, invalid(field, "the name appears twice"))
		}
		seen[name] = true
		content, _ := get(entry, inner).(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(content)) {
			text, isText := content[key].(string)
			_, err := base64.StdEncoding.DecodeString(text)
			switch advice, isForbidden := forbiddenFields[fold(key)]; {
			case isForbidden && !isEmpty(content[key]):
				problems = append(problems, forbidden(field+"."+key, advice))
			case isText && strings.HasSuffix(key, "-data") && err != nil:
				problems = append(problems, invalid(field+"."+key, "is not valid base64"))
			}
		}
	}
	return problems
}

// writeKubeconfig writes a kubeconfig with one context in JSON, a subset of YAML here.
func writeKubeconfig(
	context, namespace string, cluster clientcmdv1.NamedCluster, user clientcmdv1.NamedAuthInfo,
) string {
	// JSON can always hold the type.
	text, _ := json.Marshal(clientcmdv1.Config{
		Kind: "Config", APIVersion: clientcmdv1.SchemeGroupVersion.Version, CurrentContext: context,
		Clusters:  []clientcmdv1.NamedCluster{cluster},
		AuthInfos: []clientcmdv1.NamedAuthInfo{user},
		Contexts: []clientcmdv1.NamedContext{{
			Name: context, Context: clientcmdv1.Context{Cluster: cluster.Name, AuthInfo: user.Name, Namespace: namespace},
		}},
	})
	return string(text)
}

// tokenKubeconfig writes a kubeconfig with a token for a cluster and nothing else. All of its entries have one name.
func tokenKubeconfig(name, namespace string, cluster *clientcmdv1.Cluster, token string) string {
	return writeKubeconfig(name, namespace, clientcmdv1.NamedCluster{Name: name, Cluster: *cluster},
		clientcmdv1.NamedAuthInfo{Name: name, AuthInfo: clientcmdv1.AuthInfo{Token: token}})
}
