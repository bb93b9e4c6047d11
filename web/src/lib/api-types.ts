// Made by scripts/api-types.mjs from `tidegate openapi`; do not edit.

export type Change = {
  action: string;
  resource: string;
};

export type Changed = {
  changes: (Change)[];
  dry_run?: true;
  revision: number;
  warnings?: (unknown)[];
};

export type Checkpoint = {
  bytes: number;
  name: string;
  objects: number;
  revision: number;
  time: string;
  who: Who;
};

export type Configuration = {
  consumer_groups?: (unknown)[];
  consumers?: (unknown)[];
  global_rules?: (unknown)[];
  plugin_configs?: (unknown)[];
  plugin_metadata?: (unknown)[];
  plugins?: (unknown)[];
  protos?: (unknown)[];
  routes?: (unknown)[];
  secrets?: (unknown)[];
  services?: (unknown)[];
  ssls?: (unknown)[];
  stream_routes?: (unknown)[];
  upstreams?: (unknown)[];
};

export type Consumer = {
  create_time?: number;
  desc?: string;
  group_id?: string | number;
  id?: string | number;
  labels?: Record<string, string>;
  plugins?: ConsumerPlugins;
  update_time?: number;
  username: string;
};

export type ConsumerEntry = {
  createdIndex: number;
  key: string;
  modifiedIndex: number;
  value: ConsumerStored;
};

export type ConsumerGroup = {
  create_time?: number;
  desc?: string;
  id: string | number;
  labels?: Record<string, string>;
  name?: string;
  plugins: Plugins;
  update_time?: number;
};

export type ConsumerGroupEntry = {
  createdIndex: number;
  key: string;
  modifiedIndex: number;
  value: ConsumerGroupStored;
};

export type ConsumerGroupList = {
  list: (ConsumerGroupEntry)[];
  total: number;
};

export type ConsumerGroupStored = {
  create_time?: number;
  desc?: string;
  id?: unknown;
  labels?: Record<string, unknown> | unknown[];
  name?: string;
  plugins?: Record<string, unknown> | unknown[];
  update_time?: number;
};

export type ConsumerGroupWritten = {
  key: string;
  value: ConsumerGroupStored;
};

export type ConsumerList = {
  list: (ConsumerEntry)[];
  total: number;
};

export type ConsumerPlugins = {
  acl?: Record<string, unknown>;
  "api-breaker"?: Record<string, unknown>;
  "app-key"?: Record<string, unknown>;
  "attach-consumer-label"?: Record<string, unknown>;
  "authz-casbin"?: Record<string, unknown>;
  "authz-casdoor"?: Record<string, unknown>;
  "authz-keycloak"?: Record<string, unknown>;
  "aws-lambda"?: Record<string, unknown>;
  "azure-functions"?: Record<string, unknown>;
  "basic-auth"?: Record<string, unknown>;
  "body-transformer"?: Record<string, unknown>;
  "cas-auth"?: Record<string, unknown>;
  "chaitin-waf"?: Record<string, unknown>;
  "clickhouse-logger"?: Record<string, unknown>;
  "client-control"?: Record<string, unknown>;
  "consumer-restriction"?: Record<string, unknown>;
  cors?: Record<string, unknown>;
  csrf?: Record<string, unknown>;
  "data-mask"?: Record<string, unknown>;
  datadog?: Record<string, unknown>;
  degraphql?: Record<string, unknown>;
  "dingtalk-auth"?: Record<string, unknown>;
  echo?: Record<string, unknown>;
  "elasticsearch-logger"?: Record<string, unknown>;
  "example-plugin"?: Record<string, unknown>;
  "ext-plugin-post-req"?: Record<string, unknown>;
  "ext-plugin-post-resp"?: Record<string, unknown>;
  "ext-plugin-pre-req"?: Record<string, unknown>;
  "fault-injection"?: Record<string, unknown>;
  "feishu-auth"?: Record<string, unknown>;
  "file-logger"?: Record<string, unknown>;
  "forward-auth"?: Record<string, unknown>;
  "google-cloud-logging"?: Record<string, unknown>;
  "graphql-limit-count"?: Record<string, unknown>;
  "graphql-proxy-cache"?: Record<string, unknown>;
  "grpc-transcode"?: Record<string, unknown>;
  "grpc-web"?: Record<string, unknown>;
  gzip?: Record<string, unknown>;
  "hmac-auth"?: Record<string, unknown>;
  "http-dubbo"?: Record<string, unknown>;
  "http-logger"?: Record<string, unknown>;
  "ip-restriction"?: Record<string, unknown>;
  "jwe-decrypt"?: Record<string, unknown>;
  "jwt-auth"?: Record<string, unknown>;
  "kafka-logger"?: Record<string, unknown>;
  "kafka-proxy"?: Record<string, unknown>;
  "key-auth"?: Record<string, unknown>;
  lago?: Record<string, unknown>;
  "ldap-auth"?: Record<string, unknown>;
  "ldap-auth-advanced"?: Record<string, unknown>;
  "limit-conn"?: Record<string, unknown>;
  "limit-count"?: Record<string, unknown>;
  "limit-req"?: Record<string, unknown>;
  loggly?: Record<string, unknown>;
  "loki-logger"?: Record<string, unknown>;
  mocking?: Record<string, unknown>;
  "multi-auth"?: Record<string, unknown>;
  "oas-validator"?: Record<string, unknown>;
  opa?: Record<string, unknown>;
  openfunction?: Record<string, unknown>;
  "openid-connect"?: Record<string, unknown>;
  openwhisk?: Record<string, unknown>;
  prometheus?: Record<string, unknown>;
  "proxy-buffering"?: Record<string, unknown>;
  "proxy-cache"?: Record<string, unknown>;
  "proxy-control"?: Record<string, unknown>;
  "proxy-mirror"?: Record<string, unknown>;
  "proxy-redirect"?: Record<string, unknown>;
  "proxy-rewrite"?: Record<string, unknown>;
  "public-api"?: Record<string, unknown>;
  "real-ip"?: Record<string, unknown>;
  redirect?: Record<string, unknown>;
  "referer-restriction"?: Record<string, unknown>;
  "request-id"?: Record<string, unknown>;
  "request-validation"?: Record<string, unknown>;
  "response-rewrite"?: Record<string, unknown>;
  "rocketmq-logger"?: Record<string, unknown>;
  "saml-auth"?: Record<string, unknown>;
  "serverless-post-function"?: Record<string, unknown>;
  "serverless-pre-function"?: Record<string, unknown>;
  "skywalking-logger"?: Record<string, unknown>;
  sla?: Record<string, unknown>;
  "sls-logger"?: Record<string, unknown>;
  "splunk-hec-logging"?: Record<string, unknown>;
  "static-files"?: Record<string, unknown>;
  syslog?: Record<string, unknown>;
  "tcp-logger"?: Record<string, unknown>;
  "tencent-cloud-cls"?: Record<string, unknown>;
  "traffic-label"?: Record<string, unknown>;
  "traffic-split"?: Record<string, unknown>;
  "ua-restriction"?: Record<string, unknown>;
  "udp-logger"?: Record<string, unknown>;
  "uri-blocker"?: Record<string, unknown>;
  "wolf-rbac"?: Record<string, unknown>;
  workflow?: Record<string, unknown>;
  zipkin?: Record<string, unknown>;
};

export type ConsumerStored = {
  create_time?: number;
  desc?: string;
  group_id?: unknown;
  id?: unknown;
  labels?: Record<string, unknown> | unknown[];
  plugins?: Record<string, unknown> | unknown[];
  update_time?: number;
  username?: string;
};

export type ConsumerWritten = {
  key: string;
  value: ConsumerStored;
};

export type Credential = {
  create_time?: number;
  desc?: string;
  id?: unknown;
  labels?: Record<string, string>;
  name?: string;
  plugins?: ConsumerPlugins;
  update_time?: number;
};

export type CredentialEntry = {
  createdIndex: number;
  key: string;
  modifiedIndex: number;
  value: CredentialStored;
};

export type CredentialList = {
  list: (CredentialEntry)[];
  total: number;
};

export type CredentialStored = {
  create_time?: number;
  desc?: string;
  id?: unknown;
  labels?: Record<string, unknown> | unknown[];
  name?: string;
  plugins?: Record<string, unknown> | unknown[];
  update_time?: number;
};

export type CredentialWritten = {
  key: string;
  value: CredentialStored;
};

export type Deleted = {
  deleted: "1";
  key: string;
};

export type Error = {
  error_msg: string;
  errors?: (Fault)[];
  more?: number;
  remedy?: string;
  revision?: number;
};

export type Fault = {
  error: string;
  index?: number;
  path?: string;
  resource_id?: string | number;
  resource_type?: string;
};

export type GlobalRule = {
  create_time?: number;
  id: string | number;
  plugins: Plugins;
  update_time?: number;
};

export type GlobalRuleEntry = {
  createdIndex: number;
  key: string;
  modifiedIndex: number;
  value: GlobalRuleStored;
};

export type GlobalRuleList = {
  list: (GlobalRuleEntry)[];
  total: number;
};

export type GlobalRuleStored = {
  create_time?: number;
  id?: unknown;
  plugins?: Record<string, unknown> | unknown[];
  update_time?: number;
};

export type GlobalRuleWritten = {
  key: string;
  value: GlobalRuleStored;
};

export type GraphqlCostDecoration = {
  add_arguments?: (string)[];
  add_value?: number;
  create_time?: number;
  desc?: string;
  field_path: string;
  id?: string | number;
  labels?: Record<string, string>;
  mul_arguments?: (string)[];
  mul_value?: number;
  name?: string;
  service_id?: string | number;
  update_time?: number;
};

export type GraphqlCostDecorationEntry = {
  createdIndex: number;
  key: string;
  modifiedIndex: number;
  value: GraphqlCostDecorationStored;
};

export type GraphqlCostDecorationList = {
  list: (GraphqlCostDecorationEntry)[];
  total: number;
};

export type GraphqlCostDecorationStored = {
  add_arguments?: Record<string, unknown> | (string)[];
  add_value?: number;
  create_time?: number;
  desc?: string;
  field_path?: string;
  id?: unknown;
  labels?: Record<string, unknown> | unknown[];
  mul_arguments?: Record<string, unknown> | (string)[];
  mul_value?: number;
  name?: string;
  service_id?: unknown;
  update_time?: number;
};

export type GraphqlCostDecorationWritten = {
  key: string;
  value: GraphqlCostDecorationStored;
};

export type HistoryEntry = {
  note: string | null;
  request: string;
  revision: number;
  time: string;
  total: number;
  who: Who;
};

export type Message = {
  message: string;
};

export type Metadata = Record<string, unknown>;

export type PluginConfig = {
  create_time?: number;
  desc?: string;
  id: string | number;
  labels?: Record<string, string>;
  name?: string;
  plugins: Plugins;
  update_time?: number;
};

export type PluginConfigEntry = {
  createdIndex: number;
  key: string;
  modifiedIndex: number;
  value: PluginConfigStored;
};

export type PluginConfigList = {
  list: (PluginConfigEntry)[];
  total: number;
};

export type PluginConfigStored = {
  create_time?: number;
  desc?: string;
  id?: unknown;
  labels?: Record<string, unknown> | unknown[];
  name?: string;
  plugins?: Record<string, unknown> | unknown[];
  update_time?: number;
};

export type PluginConfigWritten = {
  key: string;
  value: PluginConfigStored;
};

export type PluginMetadata = Metadata;

export type PluginMetadataEntry = {
  createdIndex: number;
  key: string;
  modifiedIndex: number;
  value: PluginMetadataStored;
};

export type PluginMetadataList = {
  list: (PluginMetadataEntry)[];
  total: number;
};

export type PluginMetadataStored = Record<string, unknown>;

export type PluginMetadataWritten = {
  key: string;
  value: PluginMetadataStored;
};

export type Plugins = {
  acl?: Record<string, unknown>;
  "api-breaker"?: Record<string, unknown>;
  "app-key"?: Record<string, unknown>;
  "attach-consumer-label"?: Record<string, unknown>;
  "authz-casbin"?: Record<string, unknown>;
  "authz-casdoor"?: Record<string, unknown>;
  "authz-keycloak"?: Record<string, unknown>;
  "aws-lambda"?: Record<string, unknown>;
  "azure-functions"?: Record<string, unknown>;
  "basic-auth"?: Record<string, unknown>;
  "body-transformer"?: Record<string, unknown>;
  "cas-auth"?: Record<string, unknown>;
  "chaitin-waf"?: Record<string, unknown>;
  "clickhouse-logger"?: Record<string, unknown>;
  "client-control"?: Record<string, unknown>;
  "consumer-restriction"?: Record<string, unknown>;
  cors?: Record<string, unknown>;
  csrf?: Record<string, unknown>;
  "data-mask"?: Record<string, unknown>;
  datadog?: Record<string, unknown>;
  degraphql?: Record<string, unknown>;
  "dingtalk-auth"?: Record<string, unknown>;
  echo?: Record<string, unknown>;
  "elasticsearch-logger"?: Record<string, unknown>;
  "example-plugin"?: Record<string, unknown>;
  "ext-plugin-post-req"?: Record<string, unknown>;
  "ext-plugin-post-resp"?: Record<string, unknown>;
  "ext-plugin-pre-req"?: Record<string, unknown>;
  "fault-injection"?: Record<string, unknown>;
  "feishu-auth"?: Record<string, unknown>;
  "file-logger"?: Record<string, unknown>;
  "forward-auth"?: Record<string, unknown>;
  "google-cloud-logging"?: Record<string, unknown>;
  "graphql-limit-count"?: Record<string, unknown>;
  "graphql-proxy-cache"?: Record<string, unknown>;
  "grpc-transcode"?: Record<string, unknown>;
  "grpc-web"?: Record<string, unknown>;
  gzip?: Record<string, unknown>;
  "hmac-auth"?: Record<string, unknown>;
  "http-dubbo"?: Record<string, unknown>;
  "http-logger"?: Record<string, unknown>;
  "ip-restriction"?: Record<string, unknown>;
  "jwe-decrypt"?: Record<string, unknown>;
  "jwt-auth"?: Record<string, unknown>;
  "kafka-logger"?: Record<string, unknown>;
  "kafka-proxy"?: Record<string, unknown>;
  "key-auth"?: Record<string, unknown>;
  lago?: Record<string, unknown>;
  "ldap-auth"?: Record<string, unknown>;
  "ldap-auth-advanced"?: Record<string, unknown>;
  "limit-conn"?: Record<string, unknown>;
  "limit-count"?: Record<string, unknown>;
  "limit-req"?: Record<string, unknown>;
  loggly?: Record<string, unknown>;
  "loki-logger"?: Record<string, unknown>;
  mocking?: Record<string, unknown>;
  "multi-auth"?: Record<string, unknown>;
  "oas-validator"?: Record<string, unknown>;
  opa?: Record<string, unknown>;
  openfunction?: Record<string, unknown>;
  "openid-connect"?: Record<string, unknown>;
  openwhisk?: Record<string, unknown>;
  prometheus?: Record<string, unknown>;
  "proxy-buffering"?: Record<string, unknown>;
  "proxy-cache"?: Record<string, unknown>;
  "proxy-control"?: Record<string, unknown>;
  "proxy-mirror"?: Record<string, unknown>;
  "proxy-redirect"?: Record<string, unknown>;
  "proxy-rewrite"?: Record<string, unknown>;
  "public-api"?: Record<string, unknown>;
  "real-ip"?: Record<string, unknown>;
  redirect?: Record<string, unknown>;
  "referer-restriction"?: Record<string, unknown>;
  "request-id"?: Record<string, unknown>;
  "request-validation"?: Record<string, unknown>;
  "response-rewrite"?: Record<string, unknown>;
  "rocketmq-logger"?: Record<string, unknown>;
  "saml-auth"?: Record<string, unknown>;
  "serverless-post-function"?: Record<string, unknown>;
  "serverless-pre-function"?: Record<string, unknown>;
  "skywalking-logger"?: Record<string, unknown>;
  sla?: Record<string, unknown>;
  "sls-logger"?: Record<string, unknown>;
  "splunk-hec-logging"?: Record<string, unknown>;
  "static-files"?: Record<string, unknown>;
  syslog?: Record<string, unknown>;
  "tcp-logger"?: Record<string, unknown>;
  "tencent-cloud-cls"?: Record<string, unknown>;
  "traffic-label"?: Record<string, unknown>;
  "traffic-split"?: Record<string, unknown>;
  "ua-restriction"?: Record<string, unknown>;
  "udp-logger"?: Record<string, unknown>;
  "uri-blocker"?: Record<string, unknown>;
  "wolf-rbac"?: Record<string, unknown>;
  workflow?: Record<string, unknown>;
  zipkin?: Record<string, unknown>;
};

export type Proto = {
  content: string;
  create_time?: number;
  desc?: string;
  id?: string | number;
  labels?: Record<string, string>;
  name?: string;
  update_time?: number;
};

export type ProtoEntry = {
  createdIndex: number;
  key: string;
  modifiedIndex: number;
  value: ProtoStored;
};

export type ProtoList = {
  list: (ProtoEntry)[];
  total: number;
};

export type ProtoStored = {
  content?: string;
  create_time?: number;
  desc?: string;
  id?: unknown;
  labels?: Record<string, unknown> | unknown[];
  name?: string;
  update_time?: number;
};

export type ProtoWritten = {
  key: string;
  value: ProtoStored;
};

export type Revision = {
  applied: (number)[];
  compiled: number;
  stored: number;
};

export type Route = {
  create_time?: number;
  desc?: string;
  enable_websocket?: boolean;
  filter_func?: string;
  host?: string;
  hosts?: (string)[];
  id?: string | number;
  labels?: Record<string, string>;
  methods?: ("GET" | "POST" | "PUT" | "DELETE" | "PATCH" | "HEAD" | "OPTIONS" | "CONNECT" | "TRACE" | "PURGE")[];
  name?: string;
  plugin_config_id?: string | number;
  plugins?: Plugins;
  priority?: number;
  remote_addr?: string;
  remote_addrs?: (string)[];
  script?: string;
  script_id?: string | number;
  service_id?: string | number;
  status?: 1 | 0;
  timeout?: {
    connect: number;
    read: number;
    send: number;
  };
  update_time?: number;
  upstream?: Upstream;
  upstream_id?: string | number;
  uri?: string;
  uris?: (string)[];
  vars?: unknown[];
};

export type RouteEntry = {
  createdIndex: number;
  key: string;
  modifiedIndex: number;
  value: RouteStored;
};

export type RouteList = {
  list: (RouteEntry)[];
  total: number;
};

export type RouteStored = {
  create_time?: number;
  desc?: string;
  enable_websocket?: boolean;
  filter_func?: string;
  host?: string;
  hosts?: Record<string, unknown> | (string)[];
  id?: unknown;
  labels?: Record<string, unknown> | unknown[];
  methods?: Record<string, unknown> | (unknown)[];
  name?: string;
  plugin_config_id?: unknown;
  plugins?: Record<string, unknown> | unknown[];
  priority?: number;
  remote_addr?: string;
  remote_addrs?: Record<string, unknown> | (string)[];
  script?: string;
  script_id?: unknown;
  service_id?: unknown;
  status?: unknown;
  timeout?: {
    connect?: number;
    read?: number;
    send?: number;
  };
  update_time?: number;
  upstream?: {
    checks?: {
      active?: {
        concurrency?: number;
        healthy?: {
          http_statuses?: Record<string, unknown> | (number)[];
          interval?: number;
          successes?: number;
        };
        host?: string;
        http_method?: unknown;
        http_path?: string;
        http_req_body?: string;
        https_verify_certificate?: boolean;
        port?: number;
        req_headers?: Record<string, unknown> | (string)[];
        timeout?: number;
        type?: unknown;
        unhealthy?: {
          http_failures?: number;
          http_statuses?: Record<string, unknown> | (number)[];
          interval?: number;
          tcp_failures?: number;
          timeouts?: number;
        };
      };
      passive?: {
        healthy?: {
          http_statuses?: Record<string, unknown> | (number)[];
          successes?: number;
        };
        type?: unknown;
        unhealthy?: {
          http_failures?: number;
          http_statuses?: Record<string, unknown> | (number)[];
          tcp_failures?: number;
          timeouts?: number;
        };
      };
    };
    create_time?: number;
    desc?: string;
    discovery_args?: {
      group_name?: string;
      namespace_id?: string;
    };
    discovery_type?: string;
    hash_on?: unknown;
    id?: unknown;
    keepalive_pool?: {
      idle_timeout?: number;
      requests?: number;
      size?: number;
    };
    key?: string;
    labels?: Record<string, unknown> | unknown[];
    name?: string;
    nodes?: unknown;
    pass_host?: unknown;
    proxy_protocol?: unknown;
    retries?: number;
    retry_timeout?: number;
    scheme?: unknown;
    service_name?: string;
    timeout?: {
      connect?: number;
      read?: number;
      send?: number;
    };
    tls?: {
      client_cert?: string;
      client_cert_id?: unknown;
      client_key?: string;
      verify?: boolean;
    };
    type?: string;
    update_time?: number;
    upstream_host?: string;
  };
  upstream_id?: unknown;
  uri?: string;
  uris?: Record<string, unknown> | (string)[];
  vars?: Record<string, unknown> | unknown[];
};

export type RouteWritten = {
  key: string;
  value: RouteStored;
};

export type Secret = {
  namespace?: string;
  prefix: string;
  token: string;
  uri: string;
} | {
  access_key_id: string;
  endpoint_url?: string;
  region?: string;
  secret_access_key: string;
  session_token?: string;
} | {
  auth_config?: {
    client_email: string;
    entries_uri?: string;
    private_key: string;
    project_id: string;
    scope?: (string)[];
    token_uri?: string;
  };
  auth_file?: string;
  ssl_verify?: boolean;
};

export type SecretEntry = {
  createdIndex: number;
  key: string;
  modifiedIndex: number;
  value: SecretStored;
};

export type SecretList = {
  list: (SecretEntry)[];
  total: number;
};

export type SecretStored = Record<string, unknown>;

export type SecretWritten = {
  key: string;
  value: SecretStored;
};

export type Service = {
  create_time?: number;
  desc?: string;
  enable_websocket?: boolean;
  hosts?: (string)[];
  id?: string | number;
  labels?: Record<string, string>;
  name?: string;
  plugins?: Plugins;
  script?: string;
  update_time?: number;
  upstream?: Upstream;
  upstream_id?: string | number;
};

export type ServiceEntry = {
  createdIndex: number;
  key: string;
  modifiedIndex: number;
  value: ServiceStored;
};

export type ServiceList = {
  list: (ServiceEntry)[];
  total: number;
};

export type ServiceStored = {
  create_time?: number;
  desc?: string;
  enable_websocket?: boolean;
  hosts?: Record<string, unknown> | (string)[];
  id?: unknown;
  labels?: Record<string, unknown> | unknown[];
  name?: string;
  plugins?: Record<string, unknown> | unknown[];
  script?: string;
  update_time?: number;
  upstream?: {
    checks?: {
      active?: {
        concurrency?: number;
        healthy?: {
          http_statuses?: Record<string, unknown> | (number)[];
          interval?: number;
          successes?: number;
        };
        host?: string;
        http_method?: unknown;
        http_path?: string;
        http_req_body?: string;
        https_verify_certificate?: boolean;
        port?: number;
        req_headers?: Record<string, unknown> | (string)[];
        timeout?: number;
        type?: unknown;
        unhealthy?: {
          http_failures?: number;
          http_statuses?: Record<string, unknown> | (number)[];
          interval?: number;
          tcp_failures?: number;
          timeouts?: number;
        };
      };
      passive?: {
        healthy?: {
          http_statuses?: Record<string, unknown> | (number)[];
          successes?: number;
        };
        type?: unknown;
        unhealthy?: {
          http_failures?: number;
          http_statuses?: Record<string, unknown> | (number)[];
          tcp_failures?: number;
          timeouts?: number;
        };
      };
    };
    create_time?: number;
    desc?: string;
    discovery_args?: {
      group_name?: string;
      namespace_id?: string;
    };
    discovery_type?: string;
    hash_on?: unknown;
    id?: unknown;
    keepalive_pool?: {
      idle_timeout?: number;
      requests?: number;
      size?: number;
    };
    key?: string;
    labels?: Record<string, unknown> | unknown[];
    name?: string;
    nodes?: unknown;
    pass_host?: unknown;
    proxy_protocol?: unknown;
    retries?: number;
    retry_timeout?: number;
    scheme?: unknown;
    service_name?: string;
    timeout?: {
      connect?: number;
      read?: number;
      send?: number;
    };
    tls?: {
      client_cert?: string;
      client_cert_id?: unknown;
      client_key?: string;
      verify?: boolean;
    };
    type?: string;
    update_time?: number;
    upstream_host?: string;
  };
  upstream_id?: unknown;
};

export type ServiceWritten = {
  key: string;
  value: ServiceStored;
};

export type Ssl = {
  cert?: string;
  certs?: (string)[];
  client?: {
    ca: string;
    depth?: number;
    skip_mtls_uri_regex?: (string)[];
  };
  create_time?: number;
  desc?: string;
  id?: string | number;
  key?: string;
  keys?: (string)[];
  labels?: Record<string, string>;
  ocsp_stapling?: {
    cache_ttl?: number;
    enabled?: boolean;
    skip_verify?: boolean;
  };
  sni?: string;
  snis?: (string)[];
  ssl_protocols?: ("TLSv1.1" | "TLSv1.2" | "TLSv1.3")[];
  status?: 1 | 0;
  type?: "server" | "client";
  update_time?: number;
};

export type SslEntry = {
  createdIndex: number;
  key: string;
  modifiedIndex: number;
  value: SslStored;
};

export type SslList = {
  list: (SslEntry)[];
  total: number;
};

export type SslStored = {
  cert?: string;
  certs?: Record<string, unknown> | (string)[];
  client?: {
    ca?: string;
    depth?: number;
    skip_mtls_uri_regex?: Record<string, unknown> | (string)[];
  };
  create_time?: number;
  desc?: string;
  id?: unknown;
  key?: string;
  keys?: Record<string, unknown> | (string)[];
  labels?: Record<string, unknown> | unknown[];
  ocsp_stapling?: {
    cache_ttl?: number;
    enabled?: boolean;
    skip_verify?: boolean;
  };
  sni?: string;
  snis?: Record<string, unknown> | (string)[];
  ssl_protocols?: Record<string, unknown> | (unknown)[];
  status?: unknown;
  type?: unknown;
  update_time?: number;
};

export type SslWritten = {
  key: string;
  value: SslStored;
};

export type StreamRoute = {
  create_time?: number;
  desc?: string;
  id?: string | number;
  labels?: Record<string, string>;
  name?: string;
  plugins?: Plugins;
  protocol?: {
    conf?: Record<string, unknown>;
    logger?: ({
      conf?: Record<string, unknown>;
      filter?: unknown[];
      name?: string;
    })[];
    name: string;
    superior_id?: string | number;
  };
  remote_addr?: string;
  server_addr?: string;
  server_port?: number;
  service_id?: string | number;
  sni?: string;
  update_time?: number;
  upstream?: Upstream;
  upstream_id?: string | number;
};

export type StreamRouteEntry = {
  createdIndex: number;
  key: string;
  modifiedIndex: number;
  value: StreamRouteStored;
};

export type StreamRouteList = {
  list: (StreamRouteEntry)[];
  total: number;
};

export type StreamRouteStored = {
  create_time?: number;
  desc?: string;
  id?: unknown;
  labels?: Record<string, unknown> | unknown[];
  name?: string;
  plugins?: Record<string, unknown> | unknown[];
  protocol?: {
    conf?: Record<string, unknown> | unknown[];
    logger?: Record<string, unknown> | ({
      conf?: Record<string, unknown> | unknown[];
      filter?: Record<string, unknown> | unknown[];
      name?: string;
    })[];
    name?: string;
    superior_id?: unknown;
  };
  remote_addr?: string;
  server_addr?: string;
  server_port?: number;
  service_id?: unknown;
  sni?: string;
  update_time?: number;
  upstream?: {
    checks?: {
      active?: {
        concurrency?: number;
        healthy?: {
          http_statuses?: Record<string, unknown> | (number)[];
          interval?: number;
          successes?: number;
        };
        host?: string;
        http_method?: unknown;
        http_path?: string;
        http_req_body?: string;
        https_verify_certificate?: boolean;
        port?: number;
        req_headers?: Record<string, unknown> | (string)[];
        timeout?: number;
        type?: unknown;
        unhealthy?: {
          http_failures?: number;
          http_statuses?: Record<string, unknown> | (number)[];
          interval?: number;
          tcp_failures?: number;
          timeouts?: number;
        };
      };
      passive?: {
        healthy?: {
          http_statuses?: Record<string, unknown> | (number)[];
          successes?: number;
        };
        type?: unknown;
        unhealthy?: {
          http_failures?: number;
          http_statuses?: Record<string, unknown> | (number)[];
          tcp_failures?: number;
          timeouts?: number;
        };
      };
    };
    create_time?: number;
    desc?: string;
    discovery_args?: {
      group_name?: string;
      namespace_id?: string;
    };
    discovery_type?: string;
    hash_on?: unknown;
    id?: unknown;
    keepalive_pool?: {
      idle_timeout?: number;
      requests?: number;
      size?: number;
    };
    key?: string;
    labels?: Record<string, unknown> | unknown[];
    name?: string;
    nodes?: unknown;
    pass_host?: unknown;
    proxy_protocol?: unknown;
    retries?: number;
    retry_timeout?: number;
    scheme?: unknown;
    service_name?: string;
    timeout?: {
      connect?: number;
      read?: number;
      send?: number;
    };
    tls?: {
      client_cert?: string;
      client_cert_id?: unknown;
      client_key?: string;
      verify?: boolean;
    };
    type?: string;
    update_time?: number;
    upstream_host?: string;
  };
  upstream_id?: unknown;
};

export type StreamRouteWritten = {
  key: string;
  value: StreamRouteStored;
};

export type Upstream = {
  checks?: {
    active?: {
      concurrency?: number;
      healthy?: {
        http_statuses?: (number)[];
        interval?: number;
        successes?: number;
      };
      host?: string;
      http_method?: "GET" | "POST" | "PUT" | "DELETE" | "PATCH" | "HEAD" | "OPTIONS" | "CONNECT" | "TRACE" | "PURGE";
      http_path?: string;
      http_req_body?: string;
      https_verify_certificate?: boolean;
      port?: number;
      req_headers?: (string)[];
      timeout?: number;
      type?: "http" | "https" | "tcp";
      unhealthy?: {
        http_failures?: number;
        http_statuses?: (number)[];
        interval?: number;
        tcp_failures?: number;
        timeouts?: number;
      };
    };
    passive?: {
      healthy?: {
        http_statuses?: (number)[];
        successes?: number;
      };
      type?: "http" | "https" | "tcp";
      unhealthy?: {
        http_failures?: number;
        http_statuses?: (number)[];
        tcp_failures?: number;
        timeouts?: number;
      };
    };
  };
  create_time?: number;
  desc?: string;
  discovery_args?: {
    group_name?: string;
    namespace_id?: string;
  };
  discovery_type?: string;
  hash_on?: "vars" | "header" | "cookie" | "consumer" | "vars_combinations";
  id?: string | number;
  keepalive_pool?: {
    idle_timeout?: number;
    requests?: number;
    size?: number;
  };
  key?: string;
  labels?: Record<string, string>;
  name?: string;
  nodes?: Record<string, number> | ({
    host: string;
    max_conn?: unknown;
    metadata?: Record<string, unknown>;
    port?: number;
    priority?: number;
    weight: number;
  })[];
  pass_host?: "pass" | "node" | "rewrite";
  proxy_protocol?: "v1" | "v2";
  retries?: number;
  retry_timeout?: number;
  scheme?: "grpc" | "grpcs" | "http" | "https" | "tcp" | "tls" | "udp" | "kafka";
  service_name?: string;
  timeout?: {
    connect: number;
    read: number;
    send: number;
  };
  tls?: {
    client_cert?: string;
    client_cert_id?: string | number;
    client_key?: string;
    verify?: boolean;
  };
  type?: string;
  update_time?: number;
  upstream_host?: string;
};

export type UpstreamEntry = {
  createdIndex: number;
  key: string;
  modifiedIndex: number;
  value: UpstreamStored;
};

export type UpstreamList = {
  list: (UpstreamEntry)[];
  total: number;
};

export type UpstreamStored = {
  checks?: {
    active?: {
      concurrency?: number;
      healthy?: {
        http_statuses?: Record<string, unknown> | (number)[];
        interval?: number;
        successes?: number;
      };
      host?: string;
      http_method?: unknown;
      http_path?: string;
      http_req_body?: string;
      https_verify_certificate?: boolean;
      port?: number;
      req_headers?: Record<string, unknown> | (string)[];
      timeout?: number;
      type?: unknown;
      unhealthy?: {
        http_failures?: number;
        http_statuses?: Record<string, unknown> | (number)[];
        interval?: number;
        tcp_failures?: number;
        timeouts?: number;
      };
    };
    passive?: {
      healthy?: {
        http_statuses?: Record<string, unknown> | (number)[];
        successes?: number;
      };
      type?: unknown;
      unhealthy?: {
        http_failures?: number;
        http_statuses?: Record<string, unknown> | (number)[];
        tcp_failures?: number;
        timeouts?: number;
      };
    };
  };
  create_time?: number;
  desc?: string;
  discovery_args?: {
    group_name?: string;
    namespace_id?: string;
  };
  discovery_type?: string;
  hash_on?: unknown;
  id?: unknown;
  keepalive_pool?: {
    idle_timeout?: number;
    requests?: number;
    size?: number;
  };
  key?: string;
  labels?: Record<string, unknown> | unknown[];
  name?: string;
  nodes?: unknown;
  pass_host?: unknown;
  proxy_protocol?: unknown;
  retries?: number;
  retry_timeout?: number;
  scheme?: unknown;
  service_name?: string;
  timeout?: {
    connect?: number;
    read?: number;
    send?: number;
  };
  tls?: {
    client_cert?: string;
    client_cert_id?: unknown;
    client_key?: string;
    verify?: boolean;
  };
  type?: string;
  update_time?: number;
  upstream_host?: string;
};

export type UpstreamWritten = {
  key: string;
  value: UpstreamStored;
};

export type Who = {
  address: string | null;
  name: string | null;
  role: string | null;
};
