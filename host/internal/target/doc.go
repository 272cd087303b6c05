// Package target resolves the Target and the Context of a DeployItem to a form fit for plugins, and gives plugins
// access to the cluster of the host.
//
// # Where objects are read from
//
// Targets, Contexts and the objects named by these are read from the namespace of the DeployItem, regardless of
// spec.target.namespace. They come from a cache, and it may lag; therefore no fault seen in the cache alone is
// reported: the Resolver looks once more with live objects first. The data of Secrets and ConfigMaps is never in an
// informer. It is remembered by version, and the cached metadata has the current version, so that an unchanged Target
// costs no request after the first, and its content is parsed once for all items.
//
// # What a plugin gets
//
// The Target without spec.config, managed fields and annotations with a second copy of the object, as kubectl writes
// them; and its content. The content of a Target of type landscaper.gardener.cloud/kubernetes-cluster is
// `{"kubeconfig": "<text>"}`, where the text is a kubeconfig (in JSON, which is YAML) written by this package itself:
// the current context with its cluster and user, and of these only harmless fields. Unknown fields are dropped;
// duplicate keys, keys that differ only in case and aliases are refused, as parsers differ about them. A kubeconfig
// that runs commands, reads files or impersonates users, in any of its entries, is refused as a whole, and all
// forbidden fields are reported at once.
//
// # Targets that name a ServiceAccount
//
// Instead of a kubeconfig, the content of a Kubernetes cluster may ask for a login with a token for a ServiceAccount in
// the namespace of the Target in the Landscaper cluster:
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
// beside a kubeconfig as the content itself, are an error, because the cluster would be a guess. So is an unknown
// field.
//
// With Options.ServiceAccount the operator fixes the ServiceAccount of each oidcConfig and selfConfig. It may be left
// out then, and a Target with another one is refused. Otherwise writers of Targets in a namespace can act as each of
// its ServiceAccounts, like creators of Pods there.
//
// A token belongs to one version of a Target and its secret. It is handed out for a fifth of its life, at most for ten
// minutes, so that its receiver can rely on the rest. All items in need of a new token at the same time share one
// request. Deleting and creating a ServiceAccount anew makes its tokens void before their time; they are handed out for
// these ten minutes at most, and no longer if the Target is touched.
//
// # Targets of other types
//
// The content of a Target of another type passes unchanged unless it holds a kubeconfig. It does so if, at any depth,
// there is a field "kubeconfig" that is not empty, or an object of kind "Config", or an object with both "clusters" and
// "users", upper and lower case being the same; also inside texts that are JSON or YAML themselves, two levels deep.
// Ambiguous content (no JSON or YAML, duplicate keys, aliases, deep nesting) holds one if it mentions "kubeconfig", or
// both "clusters" and "users". An encoded text, such as in base64, is opaque.
//
// A kubeconfig as the content itself, or in its field "kubeconfig", gets the same treatment as above; fields beside it
// are kept. Anywhere else it is refused.
//
// # Secrets and errors
//
// A text names objects, fields and the entries of a kubeconfig. It never holds any other value of the content, and no
// token.
package target
