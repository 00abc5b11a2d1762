//! Documents of older versions: `convert`, and what `apply` says of one.

use crate::common::{Cluster, golden};

const POOL: &str = "\
apiVersion: v1
kind: ipPool
metadata: {cidr: 10.233.64.0/18}
spec:
  ipip: {enabled: true, mode: always}
  nat-outgoing: true
";

const OTHERS: &str = "\
- apiVersion: v1
  kind: policy
  metadata: {name: Allow.DNS}
  spec:
    order: 10
    selector: calico/k8s_ns == 'shop'
    egress:
    - action: allow
      protocol: udp
      destination: {tag: dns, ports: [53]}
- apiVersion: v1
  kind: profile
  metadata: {name: web, tags: [web], labels: {a: b}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web, namespace: shop}
spec:
  podSelector: {}
  ingress:
  - from: [{podSelector: {matchLabels: {role: lb}}}]
    ports: [{port: 80}]
";

#[test]
fn what_is_converted_can_be_applied() {
    let cluster = Cluster::new();
    let pool = cluster.done("convert -f -", POOL);
    golden("convert-pool.yaml", &pool);
    assert_eq!(cluster.done("apply -f -", &pool), "Successfully applied 1 'IPPool' resource(s)\n");
    assert!(cluster.done("get ippool 10-233-64-0-18 -o yaml", "").contains("ipipMode: Always\n"));
    let several = cluster.done("convert -f - -o json", OTHERS);
    golden("convert-several.json", &several);
    assert_eq!(cluster.done("apply -f -", &several), "Successfully applied 3 resource(s)\n");
}

#[test]
fn an_older_document_is_not_applied_but_the_way_is_named() {
    let cluster = Cluster::new();
    let run = cluster.type_in("apply -f -", POOL);
    golden("convert-first.txt", &run.transcript());
    for verb in ["create", "replace", "validate", "diff", "delete"] {
        let run = cluster.type_in(&format!("{verb} -f -"), POOL);
        assert!(run.code != 0 && run.stderr.contains("calicoctl convert -f FILE"), "{run:?}");
    }
}

#[test]
fn what_cannot_be_converted_is_told() {
    let cluster = Cluster::new();
    let bad = POOL.replace("always", "sometimes").replace("nat-outgoing", "natOutgoing");
    golden("convert-bad.txt", &cluster.type_in("convert -f -", &bad).transcript());
    let kind = cluster.type_in("convert -f -", "apiVersion: apps/v1\nkind: Deployment\n");
    assert!(kind.code == 1 && kind.stderr.contains("Failed to convert resource: "), "{kind:?}");
    // IP-in-IP carries IPv4 only.
    let v6 = POOL.replace("10.233.64.0/18", "2001:db8::/64");
    golden("convert-invalid.txt", &cluster.type_in("convert -f -", &v6).transcript());
    assert!(cluster.done("convert -f - --ignore-validation", &v6).contains("cidr: 2001:db8::/64\n"));
}
