// Package credentials resolves the credentials that a Context names, or a plugin, to what a plugin may see.
//
// # Where they come from
//
// Each of registryPullSecrets names a Secret of the Context's namespace with Docker's configuration, as a Pod's imagePullSecrets do:
// .dockerconfigjson, or .dockercfg of old. Of it a plugin gets auths and nothing else, and of each of these what says who somebody is;
// credential helpers are programs, and run nowhere.
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
//
// A plugin may name more Secrets with Docker's configuration, of the namespace of its item and of no other: who can write a deploy item there
// is not to get at what is elsewhere.
//
// # What is missing or wrong
//
// It is no error: a deletion must not fail over it, and a public chart needs no credentials. It is told in the place of the credentials, and
// the plugin tells the user when it would have needed them. Nothing is told that was seen in a cache alone. What the API server cannot answer
// at the moment is an error, and worth another try.
//
// # Bounds
//
// At most fifty of either kind are looked at, and eight MiB altogether are handed over. A header has at most sixteen KiB.
//
// # Secrets and texts
//
// Texts name objects, fields, keys of Secrets and registries. They never hold any other value that was found, nor an address, which may have a
// password in it.
package credentials
