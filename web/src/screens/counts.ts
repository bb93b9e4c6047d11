import { useQuery } from "@tanstack/react-query";
import { request } from "../lib/api";
import { useRevision } from "../lib/status";

/** How many objects of a kind there are. The smallest page has ten. */
async function totalOf(kind: string): Promise<number> {
  return (await request<{ total: number }>(`/${kind}?page=1&page_size=10`)).total;
}

/** The same for all who show it, asked for once for each revision of the configuration. */
export function useTotal(kind: string, wanted = true): number | undefined {
  const revision = useRevision().data?.stored;
  return useQuery({ queryKey: ["count", kind, revision], queryFn: () => totalOf(kind), enabled: revision !== undefined && wanted, placeholderData: (before) => before, staleTime: Infinity }).data;
}
