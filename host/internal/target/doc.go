// Package target resolves the Target and the Context of a DeployItem, and the credentials that the Context names, to
// what a plugin may see; and gives plugins access to the cluster that the host runs in.
//
// # Where objects are read from
//
// Targets, Contexts and what these name are read from the namespace of the DeployItem, whatever
// spec.target.namespace says. They come from a cache, which may lag; therefore nothing is reported as missing or wrong
// that was seen in the cache alone: the Resolver looks once more with live objects first. The data of Secrets and
// ConfigMaps is never in an informer. It is remembered by version, and the cached metadata tells which version is
// current, so that an unchanged Target costs no request after the first, and its content is parsed once for all items.
//
// # What a plugin gets
//
// The Target without spec.config, managed fields and the annotations in which kubectl and others keep a second copy of
// the object; and its content. The content of a Target of type landscaper.gardener.cloud/kubernetes-cluster is
// `{"kubeconfig": "<text>"}`, where the text is a kubeconfig (in JSON, which is YAML) that this package has written
// itself: the current context with its cluster and user, and of these only fields that it knows to be harmless. Unknown
// fields are dropped; duplicate keys, keys that differ only in case and aliases are refused, as parsers differ about
// them. A kubeconfig that runs commands, reads files or impersonates somebody, in any of its entries, is refused as a
// whole, and all that is forbidden is reported at once.
//
// # Targets that name a ServiceAccount
//
// Instead of a kubeconfig, the content of a Kubernetes cluster may say how to log in, with a token for a ServiceAccount
// in the namespace of the Target in the Landscaper cluster:
//
//	oidcConfig:                # to a cluster that trusts the tokens of the Landscaper cluster
//	  server: https://…        # required; https, without user, query and fragment
//	  caData: …                # PEM in base64; without it, the authorities that the plugin's machine trusts
//	  serviceAccount: {name: …}
//	  audience: [...]          # of the token; defaults to that of the Landscaper cluster's API server
//	  expirationSeconds: 86400 # the default; 600 to 4294967296
//	selfConfig:                # to the Landscaper cluster itself
//	  serviceAccount: {name: …}
//	  expirationSeconds: 86400
//
// A plugin never sees this. It gets a kubeconfig with the server and the token; that of a selfConfig has the address,
// the certificate authority (inline, also if the host has it in a file) and the expected name of the host's own client
// configuration, and none of its credentials.
//
// The field kubeconfig counts before the others, as in Landscaper. Both oidcConfig and selfConfig, or one of them
// beside a kubeconfig that is the content itself, are an error: nobody guesses which cluster is meant. So is a field
// that is not known.
//
// With Options.ServiceAccount the operator says as which ServiceAccount of its namespace each oidcConfig and selfConfig
// acts. It may be left out then, and a Target that names another one is refused.
//
// Otherwise who may write Targets in a namespace can act as each of its ServiceAccounts, like who may create pods
// there.
//
// A token belongs to one version of a Target and its secret. It is handed out for a fifth of its life, at most for ten
// minutes, so that who gets it can rely on the rest. All items that need a new token at the same time share one
// request. A ServiceAccount that was deleted and created anew makes its tokens void before their time; they are handed
// out for these ten minutes at most, and no longer if the Target is touched.
//
// # Targets of other types
//
// The content of a Target of another type passes unchanged unless it holds a kubeconfig. It does so if, at any depth,
// there is a field "kubeconfig" that is not empty, or an object of kind "Config", or an object with both "clusters" and
// "users", upper and lower case being the same; also inside texts that are JSON or YAML themselves, two levels deep.
// Content that cannot be read without doubt (no JSON or YAML, duplicate keys, aliases, deep nesting) holds one if it
// mentions "kubeconfig", or both "clusters" and "users". A text that is encoded, such as in base64, is opaque.
//
// A kubeconfig that is the content itself, or its field "kubeconfig", gets the same treatment as above; fields beside
// it are kept. Anywhere else it is refused.
//
// # Credentials of Contexts
//
// Each of registryPullSecrets names a Secret of the Context's namespace with Docker's configuration, as a Pod's
// imagePullSecrets do: .dockerconfigjson, or .dockercfg of old. Of it a plugin gets auths and nothing else, and of each
// of these what says who somebody is; credential helpers are programs, and run nowhere.
//
// The configuration helmChartRepoCredentials is as in Landscaper:
//
//	configurations:
//	  helmChartRepoCredentials:
//	    auths:
//	    - url: https://charts.example.org   # of the repository; http or https, without user
//	      customCAData: …                   # certificates in PEM, in base64; without it, the authorities of the system
//	      authHeader: Basic …               # of the header Authorization; either this
//	      secretRef: {name: …, key: …}      # or a key of a Secret of the Context's namespace; key defaults to authHeader
//
// Fields that are not known are passed over. A plugin gets certificates and nothing else that may be in customCAData.
// At most fifty entries of either kind are looked at, and eight MiB altogether are handed over. A header has at most
// sixteen KiB.
//
// A plugin may name more Secrets with Docker's configuration, of the namespace of its item and of no other: who can
// write a deploy item there is not to get at what is elsewhere.
//
// What is missing or wrong is no error: a deletion must not fail over it, and a public chart needs no credentials. It
// is told in the place of the credentials, and the plugin tells the user when it would have needed them. Nothing is
// told that was seen in a cache alone. What the API server cannot answer at the moment is an error, and worth another
// try.
//
// # The configuration of the component model
//
// The Context's ocmConfig names a ConfigMap of its namespace, whose key .ocmconfig says where components are looked up.
// A plugin gets the content of that key as it is, at most 256 KiB. What is missing or wrong is told in its place, as
// with credentials, because most items need no components.
//
// # Secrets and errors
//
// A text names objects, fields, the entries of a kubeconfig, keys of Secrets and registries. It never holds any other
// value that was found, no token, and no address of a chart repository, which may have a password in it.
package target
