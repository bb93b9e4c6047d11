// A plugin made with the SDK for AssemblyScript: puts its configuration into a response header. The name of the plugin in config.yaml
// is that of the root context.
export * from "@solo-io/proxy-runtime/proxy";
import { Context, FilterHeadersStatusValues, RootContext, registerRootContext, stream_context } from "@solo-io/proxy-runtime";

class Root extends RootContext {
  createContext(context_id: u32): Context {
    return new Tagging(context_id, this);
  }
}

class Tagging extends Context {
  constructor(context_id: u32, root_context: Root) {
    super(context_id, root_context);
  }

  onResponseHeaders(a: u32, end_of_stream: bool): FilterHeadersStatusValues {
    stream_context.headers.response.add("x-tag", this.root_context.getConfiguration());
    return FilterHeadersStatusValues.Continue;
  }
}

registerRootContext((context_id: u32) => { return new Root(context_id); }, "assembly");
